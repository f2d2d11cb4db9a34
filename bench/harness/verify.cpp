// SPDX-License-Identifier: MIT
#include "bench/harness/verify.hpp"

namespace qpmesh::bench {

float sum_of_inputs(std::uint64_t seed, int first, int last, std::size_t index) noexcept {
  float sum = 0;
  for (int rank = first; rank < last; ++rank) sum += input_value<float>(seed, rank, index);
  return sum;
}

void flip_one_byte(std::span<std::byte> output, std::uint64_t seed) noexcept {
  if (output.empty()) return;
  std::byte& unlucky = output[mix(seed) % output.size()];
  unlucky = ~unlucky;
}

}  // namespace qpmesh::bench
