// SPDX-License-Identifier: MIT
// How long vectors are cut for the staging buffers of a node. Pure integers.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "base/bytes.hpp"
#include "base/cpu.hpp"
#include "collectives/cost.hpp"
#include "collectives/node/memory.hpp"
#include "collectives/patterns/blocks.hpp"

namespace qpmesh::collectives {

// Of data staged at once: a turn of everybody for each.
inline constexpr std::size_t node_chunk_bytes = std::size_t{256} << 10;

// The buffers of an operation's staging, which its pieces take in turn.
struct StagingBuffers {
  std::size_t count;
  std::size_t bytes;
};
// For two steps in every piece.
inline constexpr StagingBuffers two_buffers{2, node_chunk_bytes};
// For a piece that is staged before the last one is awaited. Who stages piece p + 1 has seen
// everybody stage piece p - 1, before which everybody has taken piece p - 3: that buffer is free.
inline constexpr StagingBuffers four_buffers{4, node_chunk_bytes / 2};

// The same for what moves one way: buffers so short that a vector which fits them fills them all,
// and its first pieces are taken while the others are staged. A piece is worth a line from core to
// core.
inline constexpr std::size_t node_piece_bytes_min = std::size_t{8} << 10;
inline StagingBuffers four_filled_buffers(std::size_t block_bytes, int blocks_at_once) noexcept {
  const auto blocks = static_cast<std::size_t>(blocks_at_once);
  const std::size_t quarter = base::round_up(block_bytes / 4 + 1, base::cache_line_bytes);
  const std::size_t longest = four_buffers.bytes / blocks;
  return {four_buffers.count, std::min(std::max(quarter, node_piece_bytes_min), longest) * blocks};
}

// Blocks, which may differ in length, in pieces of whole elements: those of so many blocks fill a
// buffer. A vector that is staged whole is one block.
struct Pieces {
  std::size_t longest_bytes;  // of a block
  std::size_t piece_bytes;
  std::size_t stride_bytes;  // from one block's piece to the next one's
  std::size_t blocks;        // at once
  StagingBuffers buffers;

  Pieces(std::size_t longest_block_bytes, int blocks_at_once, std::size_t element_bytes,
         StagingBuffers of_staging) noexcept
      : longest_bytes{longest_block_bytes},
        piece_bytes{of_staging.bytes / static_cast<std::size_t>(blocks_at_once) / element_bytes *
                    element_bytes},
        stride_bytes{count() > 1 ? piece_bytes
                                 : base::round_up(longest_bytes, base::cache_line_bytes)},
        blocks{static_cast<std::size_t>(blocks_at_once)},
        buffers{of_staging} {}
  std::size_t count() const noexcept { return (longest_bytes + piece_bytes - 1) / piece_bytes; }
  std::size_t begin(std::size_t piece) const noexcept { return piece * piece_bytes; }
  std::size_t length(std::size_t piece, std::size_t block_bytes) const noexcept {
    return std::min(piece_bytes, block_bytes - std::min(block_bytes, begin(piece)));
  }
  std::size_t length(std::size_t piece) const noexcept { return length(piece, longest_bytes); }
  // May all be staged, and none of them waits for who takes it?
  bool all_fit() const noexcept { return count() <= buffers.count; }
  std::size_t staging_bytes() const noexcept {
    return count() > 1 ? std::min(count(), buffers.count) * buffers.bytes : stride_bytes * blocks;
  }
  // Where a block's piece begins in the staging.
  std::size_t staged_at(std::size_t piece, int block = 0) const noexcept {
    return piece % buffers.count * buffers.bytes + stride_bytes * static_cast<std::size_t>(block);
  }
};

// Which step of an algorithm says that a piece is there.
inline std::uint32_t step_of(std::size_t piece) noexcept {
  return static_cast<std::uint32_t>(piece) + 1;
}

// Staging buffers that so many bytes fill, in a prediction.
inline double chunk_count(double bytes) noexcept {
  return std::ceil(bytes / double{node_chunk_bytes});
}

// The ranks share memory, and an element of each fits a staging buffer.
inline bool fits_staging(const CallShape& shape) {
  return shape.one_node && !shape.uneven && shape.size > 1 && shape.size <= node_ranks_max &&
         shape.bytes > 0 && shape.element_bytes * shape.ranks_count() <= four_buffers.bytes;
}

}  // namespace qpmesh::collectives
