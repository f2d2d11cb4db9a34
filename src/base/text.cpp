// SPDX-License-Identifier: MIT
#include "base/text.hpp"

#include <algorithm>
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

namespace {

std::size_t edit_distance(std::string_view from, std::string_view to) {
  std::vector<std::size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < from.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < to.size(); ++j) {
      const auto substituted = diagonal + (from[i] == to[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substituted, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string nearest(std::string_view typed, const std::vector<std::string>& known,
                    std::size_t prefix_bytes) {
  constexpr std::size_t typed_bytes_max = 64;  // beyond, the distance would not be worth its time
  if (typed.size() > typed_bytes_max) return {};
  const auto distance = [&](const std::string& name) { return edit_distance(typed, name); };
  const auto best = std::ranges::min_element(known, {}, distance);
  return distance(*best) * 2 <= best->size() - prefix_bytes ? *best : std::string{};
}

}  // namespace qpmesh::base
