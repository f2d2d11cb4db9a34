// SPDX-License-Identifier: MIT
// A vector of elements cut into one block per rank. Pure integers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

namespace qpmesh::collectives {

// Either as even as possible (the first element_count % block_count blocks have one element more),
// or as two lists say that somebody else keeps. Elements unless the name says bytes. Nothing is set
// by itself: clearing arguments costs as much as a small operation.
struct Blocks {
  std::size_t element_count;  // of all blocks together
  std::size_t element_bytes;
  int block_count;
  bool gapless;                      // every block begins where the one before it ends
  const std::size_t* counts;         // null: even
  const std::size_t* offsets_bytes;  // with counts: where each block begins

  // The first element of an even block.
  std::size_t first(int block) const noexcept {
    const auto b = static_cast<std::size_t>(block);
    const auto count = static_cast<std::size_t>(block_count);
    const std::size_t longer = element_count % count;
    return b * (element_count / count) + (b < longer ? b : longer);
  }
  std::size_t length(int block) const noexcept {
    return counts != nullptr ? counts[block] : first(block + 1) - first(block);
  }
  std::size_t first_bytes(int block) const noexcept {
    if (counts == nullptr) return first(block) * element_bytes;
    if (block < block_count) return offsets_bytes[block];
    return offsets_bytes[block - 1] + counts[block - 1] * element_bytes;
  }
  std::size_t length_bytes(int block) const noexcept { return length(block) * element_bytes; }
  template <class Byte>
  std::span<Byte> of(Byte* vector, int block) const noexcept {
    return {vector + first_bytes(block), length_bytes(block)};
  }
  // Of consecutive blocks, where there are no gaps.
  std::size_t run_bytes(int block, int count) const noexcept {
    return first_bytes(block + count) - first_bytes(block);
  }
  std::size_t bytes() const noexcept { return element_count * element_bytes; }
  std::size_t longest_bytes() const noexcept {
    std::size_t longest = 0;
    for (int block = 0; block < block_count; ++block)
      longest = std::max(longest, length_bytes(block));
    return longest;
  }
};

inline Blocks even_blocks(std::size_t element_count, int block_count,
                          std::size_t element_bytes = 1) noexcept {
  return {.element_count = element_count,
          .element_bytes = element_bytes,
          .block_count = block_count,
          .gapless = true,
          .counts = nullptr,
          .offsets_bytes = nullptr};
}

}  // namespace qpmesh::collectives
