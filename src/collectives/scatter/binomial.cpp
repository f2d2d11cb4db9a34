// The root hands half of the blocks to one rank, a quarter to another one, and so does each of
// them. Wins for small blocks on many ranks: the root posts ceil(log2 N) messages instead of N-1.
// Blocks of one length. Cost ceil(log2 N) alpha + (N-1)/N S beta, and overheads where blocks wrap
// at N (root 0: nowhere). Source: R. Thakur, R. Rabenseifner, W. Gropp, 2005.
#include "collectives/scatter/binomial.hpp"

#include "collectives/algorithm.hpp"

namespace qpmesh::collectives {

Task binomial_scatter(Group group, int root, Blocks blocks, SubtreePlaces mine) {
  const int size = group.size();
  const int me = relative_rank(group.rank(), root, size);
  Round<2> round{group};
  if (me != 0) {
    const int parent = absolute_rank(binomial_parent(me), root, size);
    for_each_subtree_run(mine, blocks, root, me, me, [&](std::size_t offset, std::size_t bytes) {
      round.receive(parent, {mine.write + offset, bytes});
    });
    co_await round;
  }
  for (int reach = binomial_reach(me, size) / 2; reach >= 1;
       reach /= 2) {  // the largest subtree first
    const int child = me + reach;
    if (child >= size) continue;
    for_each_subtree_run(mine, blocks, root, me, child, [&](std::size_t offset, std::size_t bytes) {
      round.send(absolute_rank(child, root, size), {mine.read + offset, bytes});
    });
    co_await round;
  }
}

Cost binomial_scatter_cost(const CallShape& shape, const CostModel& model) {
  return {.time_s = binomial_blocks_s(shape, model),
          .messages = static_cast<double>(ceil_log2(shape.size)),
          .bytes = (shape.ranks() - 1) * shape.block_bytes()};
}

namespace {

Task run(Group group, const Arguments& arguments) {
  const int size = group.size();
  const int root = arguments.root;
  const int span = binomial_span(relative_rank(group.rank(), root, size), size);
  const Blocks blocks = even_blocks(arguments.element_count * static_cast<std::size_t>(size), size,
                                    arguments.element_bytes);
  if (group.rank() == root) {
    co_await binomial_scatter(group, root, blocks, {.read = arguments.in});
    group.copy(arguments.out, arguments.in + blocks.first_bytes(root), arguments.bytes());
  } else if (span == 1) {
    co_await binomial_scatter(group, root, blocks, {.write = arguments.out, .natural = false});
  } else {
    Scratch subtree{group, arguments.bytes() * static_cast<std::size_t>(span)};
    co_await binomial_scatter(group, root, blocks,
                              {.read = subtree.data(), .write = subtree.data(), .natural = false});
    group.copy(arguments.out, subtree.data(), arguments.bytes());
  }
}

Cost cost(const CallShape& shape, const CostModel& model) {
  Cost cost = binomial_scatter_cost(shape, model);
  cost.time_s +=
      std::max(0.0, model.copy_s(shape.block_bytes()) - model.latency_s);  // by the last sender
  return cost;
}

}  // namespace

extern constexpr Algorithm scatter_binomial{Collective::scatter, "binomial", equal_blocks, cost,
                                            run};

}  // namespace qpmesh::collectives
