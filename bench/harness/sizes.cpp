// SPDX-License-Identifier: MIT
#include "bench/harness/sizes.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "bench/harness/refuse.hpp"

namespace qpmesh::bench {

std::size_t parse_bytes(std::string_view text) {
  const auto bytes = base::parse_integer(text, true);
  if (!bytes || *bytes < 0) {
    refuse(fmt::format("\"{}\" is not a byte count", text),
           "a whole number, alone or with KiB, MiB or GiB: 4, 64KiB, 16MiB");
  }
  return static_cast<std::size_t>(*bytes);
}

std::vector<std::size_t> sizes_between(std::size_t bytes_min, std::size_t bytes_max,
                                       std::size_t element_bytes, std::size_t blocks) {
  if (bytes_min > bytes_max) {
    refuse(
        fmt::format("no size lies between --min-bytes {} and --max-bytes {}", bytes_min, bytes_max),
        "--min-bytes <= --max-bytes");
  }
  if (bytes_min % element_bytes != 0) {
    refuse(fmt::format("--min-bytes {} is not a whole number of elements of {} bytes", bytes_min,
                       element_bytes),
           fmt::format("--min-bytes {}", (bytes_min / element_bytes + 1) * element_bytes));
  }
  const std::size_t whole_bytes = element_bytes * blocks;
  std::vector<std::size_t> sizes;
  if (bytes_min == 0) sizes.push_back(0);
  for (std::size_t bytes = std::max(bytes_min, element_bytes); bytes <= bytes_max; bytes *= 2) {
    const std::size_t rounded_bytes = (bytes + whole_bytes - 1) / whole_bytes * whole_bytes;
    if (sizes.empty() || sizes.back() != rounded_bytes) sizes.push_back(rounded_bytes);
    if (bytes > bytes_max / 2) break;  // doubling could wrap
  }
  return sizes;
}

}  // namespace qpmesh::bench
