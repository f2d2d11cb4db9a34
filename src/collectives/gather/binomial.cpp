// Every rank of a binomial tree waits for the blocks of its subtree and hands all of them up together. Wins for small blocks on many
// ranks: the root takes ceil(log2 N) messages instead of N-1. Blocks of one length.
// Cost ceil(log2 N) alpha + (N-1)/N S beta, and overheads where blocks wrap at N.
// Source: R. Thakur, R. Rabenseifner, W. Gropp, 2005.
#include "collectives/gather/gather.hpp"

namespace qpmesh::collectives {

Task binomial_gather(Group group, int root, Blocks blocks, SubtreePlaces mine) {
  const int size = group.size();
  const int me = relative_rank(group.rank(), root, size);
  Round<2> round{group};
  for (int reach = 1; reach < binomial_reach(me, size); reach *= 2) {  // the smallest subtree is ready first
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

Task gather_binomial(Group group, Arguments arguments) {
  const int size = group.size();
  const int root = arguments.root;
  const int span = binomial_span(relative_rank(group.rank(), root, size), size);
  const Blocks blocks =
      even_blocks(arguments.element_count * static_cast<std::size_t>(size), size, arguments.element_bytes);
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

Cost gather_binomial_cost(const Shape& shape, const Model& model) {
  Cost cost = binomial_blocks_cost(shape, model);
  // Each rank sends once; the last child of the root has the most.
  const int blocks = shape.size - static_cast<int>(std::bit_ceil(static_cast<unsigned>(shape.size))) / 2;
  cost.messages = shape.size > 1 ? (blocks > 1 ? 2 : 1) : 0;
  cost.bytes = shape.size > 1 ? blocks * shape.block_bytes() : 0;
  return cost;
}

}  // namespace qpmesh::collectives
