// Every rank of a binomial tree waits for the blocks of its subtree and hands all of them up
// together. Wins for small blocks on many ranks: the root takes ceil(log2 N) messages instead of
// N-1. Blocks of one length. Cost ceil(log2 N) alpha + (N-1)/N S beta, and overheads where blocks
// wrap at N (root 0: nowhere). Source: R. Thakur, R. Rabenseifner, W. Gropp, 2005.
#include "collectives/gather/binomial.hpp"

#include "collectives/algorithm.hpp"

namespace qpmesh::collectives {

Task binomial_gather(Group group, int root, Blocks blocks, SubtreePlaces mine) {
  const int size = group.size();
  const int me = relative_rank(group.rank(), root, size);
  Round<2> round{group};
  for (int reach = 1; reach < binomial_reach(me, size);
       reach *= 2) {  // the smallest subtree is ready first
    const int child = me + reach;
    if (child >= size) break;
    for_each_subtree_run(mine, blocks, root, me, child, [&](std::size_t offset, std::size_t bytes) {
      round.receive(absolute_rank(child, root, size), {mine.write + offset, bytes});
    });
    co_await round;
  }
  if (me == 0) co_return;
  for_each_subtree_run(mine, blocks, root, me, me, [&](std::size_t offset, std::size_t bytes) {
    round.send(absolute_rank(binomial_parent(me), root, size), {mine.read + offset, bytes});
  });
  co_await round;
}

namespace {

// Until the blocks of a subtree of so many ranks are together. The last child may have fewer than
// the others, and be ready before them.
double gather_s(int size, double block_bytes, const CostModel& model) {
  if (size <= 1) return 0;
  const int reach = static_cast<int>(std::bit_ceil(static_cast<unsigned>(size))) / 2;
  const int last = size - reach;
  const double last_bytes = last * block_bytes;
  const int half = reach / 2;
  const double full_s = gather_s(reach, block_bytes, model);
  if (last == reach) return full_s + model.round_s(1, last_bytes);
  return std::max(full_s + model.gap_s(half * block_bytes),
                  gather_s(last, block_bytes, model) + model.latency_s) +
         last_bytes * model.byte_s;
}

}  // namespace

Cost binomial_gather_cost(const CallShape& shape, const CostModel& model) {
  if (shape.size == 1) return {};
  // Each rank sends once; one of the last two children of the root has the most.
  const int reach = static_cast<int>(std::bit_ceil(static_cast<unsigned>(shape.size))) / 2;
  return {.time_s = gather_s(shape.size, shape.block_bytes(), model),
          .messages = 1,
          .bytes = std::max(shape.size - reach, reach / 2) * shape.block_bytes()};
}

namespace {

Task run(Group group, const Arguments& arguments) {
  const int size = group.size();
  const int root = arguments.root;
  const int span = binomial_span(relative_rank(group.rank(), root, size), size);
  const Blocks blocks = even_blocks(arguments.element_count * static_cast<std::size_t>(size), size,
                                    arguments.element_bytes);
  if (group.rank() == root) {
    group.copy(arguments.out + blocks.first_bytes(root), arguments.in, arguments.bytes());
    co_await binomial_gather(group, root, blocks, {.write = arguments.out});
  } else if (span == 1) {
    co_await binomial_gather(group, root, blocks, {.read = arguments.in, .natural = false});
  } else {
    Scratch subtree{group, arguments.bytes() * static_cast<std::size_t>(span)};
    group.copy(subtree.data(), arguments.in, arguments.bytes());
    co_await binomial_gather(group, root, blocks,
                             {.read = subtree.data(), .write = subtree.data(), .natural = false});
  }
}

Cost cost(const CallShape& shape, const CostModel& model) {
  Cost cost = binomial_gather_cost(shape, model);
  // Its own block a rank copies before the first one comes.
  cost.time_s += std::max(0.0, model.copy_s(shape.block_bytes()) - model.latency_s);
  return cost;
}

}  // namespace

extern constexpr Algorithm gather_binomial{Collective::gather, "binomial", equal_blocks, cost, run};

}  // namespace qpmesh::collectives
