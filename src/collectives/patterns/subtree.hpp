// Blocks that go up or down a binomial tree: a rank keeps those of its subtree.
#pragma once

#include "collectives/patterns/binomial.hpp"
#include "collectives/patterns/blocks.hpp"
#include "collectives/patterns/circulant.hpp"

namespace qpmesh::collectives {

// Where. natural: each block at its place in the vector; otherwise they lie one behind the other in
// the order of the tree, this rank's first, and all have one length. Only what is received needs
// `write`. Trivially destructible: a parameter of tasks.
struct SubtreePlaces {
  const std::byte* read = nullptr;
  std::byte* write = nullptr;
  bool natural = true;
};

// f(offset in bytes, bytes) for each run of consecutive blocks of the subtree of `top`, as the rank
// `relative` keeps them. Both ends of a message cut it alike: where it wraps at block N.
template <class F>
void for_each_subtree_run(const SubtreePlaces& places, const Blocks& blocks, int root, int relative,
                          int top, F&& f) {
  const int size = blocks.block_count;
  for_each_run(root, size, top, binomial_span(top, size), [&](BlockRun run, int begin) {
    const std::size_t offset =
        places.natural ? blocks.first_bytes(run.first)
                       : static_cast<std::size_t>(begin - relative) * blocks.length_bytes(0);
    f(offset, blocks.run_bytes(run.first, run.count));
  });
}

// Down or up the tree from or to rank 0; another root's blocks wrap, which is an overhead more in a
// round.
inline double binomial_blocks_s(const CallShape& shape, const CostModel& model) noexcept {
  return binomial_s(shape.size, model, [&](int ranks) { return ranks * shape.block_bytes(); });
}

}  // namespace qpmesh::collectives
