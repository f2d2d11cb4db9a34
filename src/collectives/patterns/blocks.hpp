// A vector of elements cut into one block per rank. Pure integers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace qpmesh::collectives {

// As even as possible: the first element_count % block_count blocks have one element more.
struct EvenBlocks {
  std::size_t element_count;
  int block_count;

  std::size_t first(int block) const noexcept {
    const auto b = static_cast<std::size_t>(block);
    const auto count = static_cast<std::size_t>(block_count);
    const std::size_t longer = element_count % count;
    return b * (element_count / count) + (b < longer ? b : longer);
  }
  std::size_t length(int block) const noexcept { return first(block + 1) - first(block); }
};

}  // namespace qpmesh::collectives
