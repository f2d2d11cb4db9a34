#include "base/cpu.hpp"

#include <isa-l/crc.h>

#include <algorithm>
#include <limits>

namespace qpmesh::base {

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t seed) noexcept {
  // ISA-L takes an int, and a pointer that it does not write through.
  constexpr std::size_t step = std::numeric_limits<int>::max();
  while (!bytes.empty()) {
    const auto part = bytes.first(std::min(bytes.size(), step));
    auto* data = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(part.data()));
    seed = crc32_iscsi(data, static_cast<int>(part.size()), seed);
    bytes = bytes.subspan(part.size());
  }
  return seed;
}

}  // namespace qpmesh::base
