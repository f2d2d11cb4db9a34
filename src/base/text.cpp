#include "base/text.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <charconv>
#include <numeric>
#include <utility>

namespace qpmesh::base {

std::optional<std::int64_t> parse_integer(std::string_view text, bool with_suffix) {
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{}) return std::nullopt;
  std::int64_t factor = 1;
  if (rest != end) {
    const std::string_view suffix{rest, end};
    if (!with_suffix) return std::nullopt;
    if (suffix == "KiB") factor = std::int64_t{1} << 10;
    else if (suffix == "MiB") factor = std::int64_t{1} << 20;
    else if (suffix == "GiB") factor = std::int64_t{1} << 30;
    else return std::nullopt;
  }
  if (__builtin_mul_overflow(value, factor, &value)) return std::nullopt;
  return value;
}

std::size_t edit_distance(std::string_view from, std::string_view to) {
  assert(to.size() <= edit_distance_bytes_max);
  std::array<std::size_t, edit_distance_bytes_max + 1> row{};
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < from.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < to.size(); ++j) {
      const auto substituted = diagonal + (from[i] == to[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substituted, row[j] + 1, diagonal + 1});
    }
  }
  return row[to.size()];
}

}  // namespace qpmesh::base
