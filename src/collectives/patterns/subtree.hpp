// Blocks that go up or down a binomial tree: a rank keeps those of its subtree.
#pragma once

#include "collectives/patterns/binomial.hpp"
#include "collectives/patterns/blocks.hpp"
#include "collectives/patterns/circulant.hpp"

namespace qpmesh::collectives {

// Where. natural: each block at its place in the vector; otherwise they lie one behind the other in the order of the tree, this rank's
// first, and all have one length. Only what is received needs `write`. Trivially destructible: a parameter of tasks.
struct SubtreePlaces {
  const std::byte* read = nullptr;
  std::byte* write = nullptr;
  bool natural = true;
};

// f(offset in bytes, bytes) for each run of consecutive blocks of the subtree of `top`, as the rank `relative` keeps them. Both ends of a
// message cut it alike: where it wraps at block N.
template <class F>
void for_each_subtree_run(const SubtreePlaces& places, const Blocks& blocks, int root, int relative, int top,
                          F&& f) {
  const int size = blocks.block_count;
  for_each_run(root, size, top, binomial_span(top, size), [&](BlockRun run, int begin) {
    const std::size_t offset = places.natural
                                   ? blocks.first_bytes(run.first)
                                   : static_cast<std::size_t>(begin - relative) * blocks.length_bytes(0);
    f(offset, blocks.run_bytes(run.first, run.count));
  });
}

// Down or up the tree: the way to the leaf that most levels lie before. On some rank the blocks wrap, and go as two messages.
inline Cost binomial_blocks_cost(const Shape& shape, const Model& model) noexcept {
  Cost cost;
  const int top = static_cast<int>(std::bit_ceil(static_cast<unsigned>(shape.size))) / 2;
  for (int reach = top; reach >= 1 && shape.size > 1; reach /= 2) {
    const int blocks = std::min(reach, shape.size - reach);
    const int messages = blocks > 1 ? 2 : 1;
    cost.add_round(model, messages, blocks * shape.block_bytes() / messages);
  }
  return cost;
}

}  // namespace qpmesh::collectives
