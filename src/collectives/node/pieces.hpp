// How long vectors are cut for the staging buffers of a node. Pure integers.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "collectives/cost.hpp"
#include "collectives/node/memory.hpp"
#include "collectives/patterns/blocks.hpp"

namespace qpmesh::collectives {

// Of a vector, in a prediction.
inline double chunk_count(double bytes) noexcept {
  return std::ceil(bytes / double{node_chunk_bytes});
}

// A vector in chunks of whole elements, each as long as a staging buffer.
struct Chunks {
  std::size_t bytes;
  std::size_t chunk_bytes;

  explicit Chunks(std::size_t vector_bytes, std::size_t element_bytes = 1) noexcept
      : bytes{vector_bytes}, chunk_bytes{node_chunk_bytes / element_bytes * element_bytes} {}
  std::size_t count() const noexcept { return (bytes + chunk_bytes - 1) / chunk_bytes; }
  std::size_t begin(std::size_t chunk) const noexcept { return chunk * chunk_bytes; }
  std::size_t length(std::size_t chunk) const noexcept {
    return std::min(chunk_bytes, bytes - begin(chunk));
  }
};

// Blocks, which may differ in length, in pieces: those of so many blocks fill a staging buffer.
struct Pieces {
  std::size_t longest_bytes;
  std::size_t piece_bytes;

  Pieces(const Blocks& blocks, int blocks_at_once, std::size_t element_bytes = 1) noexcept
      : longest_bytes{0},
        piece_bytes{node_chunk_bytes / static_cast<std::size_t>(blocks_at_once) / element_bytes *
                    element_bytes} {
    for (int block = 0; block < blocks.block_count; ++block)
      longest_bytes = std::max(longest_bytes, blocks.length_bytes(block));
  }
  std::size_t count() const noexcept { return (longest_bytes + piece_bytes - 1) / piece_bytes; }
  std::size_t begin(std::size_t piece) const noexcept { return piece * piece_bytes; }
  std::size_t length(std::size_t piece, std::size_t block_bytes) const noexcept {
    return std::min(piece_bytes, block_bytes - std::min(block_bytes, begin(piece)));
  }
  // In a staging buffer.
  std::size_t place(int block) const noexcept {
    return piece_bytes * static_cast<std::size_t>(block);
  }
};

// The ranks share memory, and an element of each fits a staging buffer.
inline bool fits_staging(const CallShape& shape) {
  return shape.one_node && !shape.uneven && shape.size > 1 && shape.size <= node_ranks_max &&
         shape.bytes > 0 && shape.element_bytes * shape.ranks_count() <= node_chunk_bytes;
}

}  // namespace qpmesh::collectives
