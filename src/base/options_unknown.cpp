// A misspelt variable would otherwise be silently without effect.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/options_table.hpp"
#include "base/text.hpp"

namespace qpmesh::base {
namespace {

// Read by the bootstrap, not options: who this rank is.
constexpr std::array<std::string_view, 7> identity_names{
    "QPMESH_RANK",       "QPMESH_SIZE",   "QPMESH_ROOT",       "QPMESH_JOB",
    "QPMESH_LOCAL_SIZE", "QPMESH_SECRET", "QPMESH_SECRET_FILE"};

std::vector<std::string_view> known_names() {
  std::vector<std::string_view> known;
  known.reserve(identity_names.size() + option_table().size());
  for (const auto name : identity_names) known.push_back(name);
  for (const auto& row : option_table()) known.push_back(row.variable);
  return known;
}

}  // namespace

std::vector<std::string> unknown_variables(std::span<const std::string> names) {
  constexpr std::string_view prefix = "QPMESH_";
  const auto known = known_names();
  std::vector<std::string> sentences;
  for (const auto& name : names) {
    if (!name.starts_with(prefix) || std::ranges::find(known, name) != known.end()) continue;
    std::string sentence = fmt::format("{} is set, but nothing reads it", name);
    if (name.size() <= edit_distance_bytes_max) {
      const auto nearest = std::ranges::min(
          known, {}, [&](std::string_view other) { return edit_distance(name, other); });
      // At most half of what follows the prefix may differ: further away is a different word.
      if (edit_distance(name, nearest) * 2 <= nearest.size() - prefix.size()) {
        sentence += fmt::format("; did you mean {}?", nearest);
      }
    }
    sentences.push_back(std::move(sentence));
  }
  return sentences;
}

}  // namespace qpmesh::base
