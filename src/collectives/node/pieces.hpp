// How long vectors are cut for the staging buffers of a node. Pure integers.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/bytes.hpp"
#include "base/cpu.hpp"
#include "collectives/cost.hpp"
#include "collectives/node/memory.hpp"
#include "collectives/patterns/blocks.hpp"

namespace qpmesh::collectives {

// Of data staged at once: a turn of everybody for each.
inline constexpr std::size_t node_chunk_bytes = std::size_t{256} << 10;

// Blocks, which may differ in length, in pieces of whole elements: those of so many blocks fill a
// buffer of the staging. A vector that is staged whole is one block. Pieces take two buffers in
// turn.
struct Pieces {
  std::size_t longest_bytes;  // of a block
  std::size_t piece_bytes;
  std::size_t stride_bytes;  // from one block's piece to the next one's
  std::size_t blocks;        // at once

  Pieces(std::size_t longest_block_bytes, int blocks_at_once, std::size_t element_bytes) noexcept
      : longest_bytes{longest_block_bytes},
        piece_bytes{node_chunk_bytes / static_cast<std::size_t>(blocks_at_once) / element_bytes *
                    element_bytes},
        stride_bytes{count() > 1 ? piece_bytes
                                 : base::round_up(longest_bytes, base::cache_line_bytes)},
        blocks{static_cast<std::size_t>(blocks_at_once)} {}
  std::size_t count() const noexcept { return (longest_bytes + piece_bytes - 1) / piece_bytes; }
  std::size_t begin(std::size_t piece) const noexcept { return piece * piece_bytes; }
  std::size_t length(std::size_t piece, std::size_t block_bytes) const noexcept {
    return std::min(piece_bytes, block_bytes - std::min(block_bytes, begin(piece)));
  }
  std::size_t length(std::size_t piece) const noexcept { return length(piece, longest_bytes); }
  // Of the staging, for one buffer or two.
  std::size_t staging_bytes() const noexcept {
    return count() > 1 ? 2 * node_chunk_bytes : stride_bytes * blocks;
  }
  // Where a block's piece begins in the staging.
  std::size_t staged_at(std::size_t piece, int block = 0) const noexcept {
    return piece % 2 * node_chunk_bytes + stride_bytes * static_cast<std::size_t>(block);
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
