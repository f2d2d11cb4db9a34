#include "bench/harness/sizes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <utility>

#include "bench/harness/refuse.hpp"

namespace qpmesh::bench {
namespace {

constexpr std::array<std::pair<std::string_view, unsigned>, 5> unit_shifts{
    {{"", 0}, {"B", 0}, {"KiB", 10}, {"MiB", 20}, {"GiB", 30}}};

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row;  // distances of the part of a seen so far to every prefix of b
  for (std::size_t j = 0; j <= b.size(); ++j) row.push_back(j);
  for (const char wanted : a) {
    std::size_t diagonal = row.front();
    ++row.front();
    for (std::size_t j = 1; j < row.size(); ++j) {
      const std::size_t replaced = diagonal + (wanted == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::size_t parse_bytes(std::string_view text) {
  constexpr std::string_view hint = "a whole number, alone or with B, KiB, MiB or GiB: 4, 64KiB, 16MiB";
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) refuse(fmt::format("\"{}\" is not a byte count", text), std::string{hint});
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  const auto known = std::ranges::find(unit_shifts, unit, &std::pair<std::string_view, unsigned>::first);
  if (known == unit_shifts.end()) {
    refuse(fmt::format("\"{}\" has the unknown unit \"{}\"", text, unit), std::string{hint});
  }
  if (number > std::numeric_limits<std::size_t>::max() >> known->second) {
    refuse(fmt::format("\"{}\" is more bytes than this machine can address", text), std::string{hint});
  }
  return number << known->second;
}

std::vector<std::size_t> sizes_between(std::size_t bytes_min, std::size_t bytes_max,
                                       std::size_t element_bytes) {
  if (bytes_min == 0 || bytes_min > bytes_max) {
    refuse(fmt::format("no size lies between --min-bytes {} and --max-bytes {}", bytes_min, bytes_max),
           "0 < --min-bytes <= --max-bytes");
  }
  if (bytes_min % element_bytes != 0) {
    refuse(
        fmt::format("--min-bytes {} is not a whole number of elements of {} bytes", bytes_min, element_bytes),
        fmt::format("--min-bytes {}", (bytes_min / element_bytes + 1) * element_bytes));
  }
  std::vector<std::size_t> sizes;
  for (std::size_t bytes = bytes_min; bytes <= bytes_max; bytes *= 2) {
    sizes.push_back(bytes);
    if (bytes > bytes_max / 2) break;  // doubling could wrap
  }
  return sizes;
}

std::string nearest(std::string_view text, const std::vector<std::string>& candidates) {
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(2, text.size() / 3) + 1;
  for (const auto& candidate : candidates) {
    if (const std::size_t distance = edit_distance(text, candidate); distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace qpmesh::bench
