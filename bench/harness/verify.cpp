#include "bench/harness/verify.hpp"

namespace qpmesh::bench {

std::size_t count_wrong_sums(std::span<const float> outputs, std::uint64_t seed, int ranks) noexcept {
  return count_wrong(outputs, [seed, ranks](std::size_t index) {
    float sum = 0;
    for (int rank = 0; rank < ranks; ++rank) sum += input_value<float>(seed, rank, index);
    return sum;
  });
}

void flip_one_byte(std::span<std::byte> output, std::uint64_t seed) noexcept {
  if (output.empty()) return;
  std::byte& unlucky = output[mix(seed) % output.size()];
  unlucky = ~unlucky;
}

}  // namespace qpmesh::bench
