// SPDX-License-Identifier: MIT
// Binomial tree (patterns/binomial.hpp).
// Broadcast: whoever has the vector sends it to a rank that has not, so their number doubles in
// every round. Wins for small vectors on many ranks. Cost ceil(log2 N) (alpha + S beta).
// Gather: every rank waits for the blocks of its subtree and hands all of them up together.
// Scatter: the root hands half of the blocks to one rank, a quarter to another one, and so does
// each of them. Both win for small blocks on many ranks: the root has ceil(log2 N) messages instead
// of N-1. Blocks of one length. Cost ceil(log2 N) alpha + (N-1)/N S beta, and overheads where
// blocks wrap at N (root 0: nowhere).
// Source: R. Thakur, R. Rabenseifner, W. Gropp, 2005.
#include "collectives/patterns/binomial.hpp"
#include "collectives/algorithm.hpp"
#include "collectives/algorithms/phases.hpp"
#include "collectives/patterns/circulant.hpp"

namespace qpmesh::collectives {
namespace {

Task broadcast(Group group, const Arguments& arguments) {
  const std::span<std::byte> vector{arguments.out, arguments.bytes()};
  const int size = group.size();
  const int root = arguments.root;
  const int me = relative_rank(group.rank(), root, size);
  constexpr int children_max = 31;
  Round<children_max> round{group};
  if (me != 0) {
    round.receive(absolute_rank(binomial_parent(me), root, size), vector);
    co_await round;
  }
  // The largest subtree first.
  for (int reach = binomial_reach(me, size) / 2; reach >= 1; reach /= 2) {
    if (me + reach < size) round.send(absolute_rank(me + reach, root, size), vector);
  }
  co_await round;
}

Cost broadcast_cost(const CallShape& shape, const CostModel& model) {
  const double messages = ceil_log2(shape.size);
  return {
      .time_s = binomial_s(shape.size, model.alone(), [&](int) { return shape.vector_bytes(); }),
      .messages = messages,
      .bytes = messages * shape.vector_bytes()};
}

// f(offset in bytes, bytes) for each run of consecutive blocks of the subtree of `top`, as the rank
// `relative` keeps them. Both ends of a message cut it alike: where it wraps at block N.
template <class F>
void for_each_subtree_run(const SubtreeBlocks& mine, const Blocks& blocks, int root, int relative,
                          int top, F&& f) {
  const int size = blocks.block_count;
  for_each_run(root, size, top, binomial_span(top, size), [&](BlockRun run, int begin) {
    const std::size_t offset =
        mine.in_vector ? blocks.first_bytes(run.first)
                       : static_cast<std::size_t>(begin - relative) * blocks.length_bytes(0);
    f(offset, blocks.run_bytes(run.first, run.count));
  });
}

}  // namespace

Task binomial_gather(Group group, int root, Blocks blocks, SubtreeBlocks mine) {
  const int size = group.size();
  const int me = relative_rank(group.rank(), root, size);
  Round<2> round{group};
  // The smallest subtree is ready first.
  for (int reach = 1; reach < binomial_reach(me, size); reach *= 2) {
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

Task binomial_scatter(Group group, int root, Blocks blocks, SubtreeBlocks mine) {
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
  for (int reach = binomial_reach(me, size) / 2; reach >= 1; reach /= 2) {
    const int child = me + reach;
    if (child >= size) continue;
    for_each_subtree_run(mine, blocks, root, me, child, [&](std::size_t offset, std::size_t bytes) {
      round.send(absolute_rank(child, root, size), {mine.read + offset, bytes});
    });
    co_await round;
  }
}

namespace {

// Until the blocks of a subtree of so many ranks are together. The last child may have fewer than
// the others, and be ready before them.
double gather_s(int size, double block_bytes, const CostModel& model) {
  if (size <= 1) return 0;
  const int reach = binomial_reach(0, size) / 2;
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
  const int reach = binomial_reach(0, shape.size) / 2;
  return {.time_s = gather_s(shape.size, shape.block_bytes(), model.alone()),
          .messages = 1,
          .bytes = std::max(shape.size - reach, reach / 2) * shape.block_bytes()};
}

// Another root's blocks wrap, which is an overhead more in a round.
Cost binomial_scatter_cost(const CallShape& shape, const CostModel& model) {
  const auto bytes_of = [&](int ranks) { return ranks * shape.block_bytes(); };
  return {.time_s = binomial_s(shape.size, model.alone(), bytes_of),
          .messages = static_cast<double>(ceil_log2(shape.size)),
          .bytes = shape.others_bytes()};
}

namespace {

Blocks blocks_of_all(const Group& group, const Arguments& arguments) {
  return even_blocks(arguments.element_count * static_cast<std::size_t>(group.size()), group.size(),
                     arguments.element_bytes);
}
int subtree_ranks(const Group& group, int root) {
  return binomial_span(relative_rank(group.rank(), root, group.size()), group.size());
}

Task gather(Group group, const Arguments& arguments) {
  const int root = arguments.root;
  const int ranks = subtree_ranks(group, root);
  const Blocks blocks = blocks_of_all(group, arguments);
  if (group.rank() == root) {
    group.copy(arguments.out + blocks.first_bytes(root), arguments.in, arguments.bytes());
    co_await binomial_gather(group, root, blocks, {.write = arguments.out});
    co_return;
  }
  const bool is_leaf = ranks == 1;
  Scratch subtree{group, is_leaf ? 0 : arguments.bytes() * static_cast<std::size_t>(ranks)};
  if (!is_leaf) group.copy(subtree.data(), arguments.in, arguments.bytes());
  const std::byte* const read = is_leaf ? arguments.in : subtree.data();
  co_await binomial_gather(group, root, blocks,
                           {.read = read, .write = subtree.data(), .in_vector = false});
}

Cost gather_cost(const CallShape& shape, const CostModel& model) {
  Cost cost = binomial_gather_cost(shape, model);
  // Its own block a rank copies before the first one comes.
  cost.time_s += model.overlapped_copy_s(shape.block_bytes());
  return cost;
}

Task scatter(Group group, const Arguments& arguments) {
  const int root = arguments.root;
  const int ranks = subtree_ranks(group, root);
  const Blocks blocks = blocks_of_all(group, arguments);
  if (group.rank() == root) {
    co_await binomial_scatter(group, root, blocks, {.read = arguments.in});
    group.copy(arguments.out, arguments.in + blocks.first_bytes(root), arguments.bytes());
    co_return;
  }
  const bool is_leaf = ranks == 1;
  Scratch subtree{group, is_leaf ? 0 : arguments.bytes() * static_cast<std::size_t>(ranks)};
  std::byte* const blocks_here = is_leaf ? arguments.out : subtree.data();
  co_await binomial_scatter(group, root, blocks,
                            {.read = blocks_here, .write = blocks_here, .in_vector = false});
  if (!is_leaf) group.copy(arguments.out, blocks_here, arguments.bytes());
}

Cost scatter_cost(const CallShape& shape, const CostModel& model) {
  Cost cost = binomial_scatter_cost(shape, model);
  cost.time_s += model.overlapped_copy_s(shape.block_bytes());  // by the last sender
  return cost;
}

}  // namespace

extern constexpr Algorithm broadcast_binomial{Collective::broadcast, "binomial", always,
                                              broadcast_cost, broadcast};
extern constexpr Algorithm gather_binomial{Collective::gather, "binomial", equal_blocks,
                                           gather_cost, gather};
extern constexpr Algorithm scatter_binomial{Collective::scatter, "binomial", equal_blocks,
                                            scatter_cost, scatter};

}  // namespace qpmesh::collectives
