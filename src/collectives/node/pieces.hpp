// How long vectors are cut for the staging buffers of a node. Pure integers.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "collectives/cost.hpp"
#include "collectives/node/memory.hpp"
#include "collectives/patterns/blocks.hpp"

namespace qpmesh::collectives {

// Blocks, which may differ in length, in pieces of whole elements: those of so many blocks fill a
// staging buffer. A vector that is staged whole is one block.
struct Pieces {
  std::size_t longest_bytes;  // of a block
  std::size_t piece_bytes;

  Pieces(std::size_t longest_block_bytes, int blocks_at_once, std::size_t element_bytes) noexcept
      : longest_bytes{longest_block_bytes},
        piece_bytes{node_chunk_bytes / static_cast<std::size_t>(blocks_at_once) / element_bytes *
                    element_bytes} {}
  std::size_t count() const noexcept { return (longest_bytes + piece_bytes - 1) / piece_bytes; }
  std::size_t begin(std::size_t piece) const noexcept { return piece * piece_bytes; }
  std::size_t length(std::size_t piece, std::size_t block_bytes) const noexcept {
    return std::min(piece_bytes, block_bytes - std::min(block_bytes, begin(piece)));
  }
  std::size_t length(std::size_t piece) const noexcept { return length(piece, longest_bytes); }
  // In a staging buffer.
  std::size_t offset(int block) const noexcept {
    return piece_bytes * static_cast<std::size_t>(block);
  }
};

// Staging buffers that so many bytes fill, in a prediction.
inline double chunk_count(double bytes) noexcept {
  return std::ceil(bytes / double{node_chunk_bytes});
}

// The ranks share memory, and an element of each fits a staging buffer.
inline bool fits_staging(const CallShape& shape) {
  return shape.one_node && !shape.uneven && shape.size > 1 && shape.size <= node_ranks_max &&
         shape.bytes > 0 && shape.element_bytes * shape.ranks_count() <= node_chunk_bytes;
}

}  // namespace qpmesh::collectives
