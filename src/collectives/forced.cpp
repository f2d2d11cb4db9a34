// SPDX-License-Identifier: MIT
#include "collectives/forced.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/errors.hpp"
#include "base/text.hpp"
#include "collectives/registry.hpp"

namespace qpmesh::collectives {
namespace {

template <class... Arguments>
[[noreturn]] void refuse(std::string_view hint, fmt::format_string<Arguments...> cause,
                         Arguments&&... arguments) {
  base::throw_error({ErrorCode::bad_config}, "init", hint, "algorithms (QPMESH_ALGORITHMS){}",
                    fmt::format(cause, std::forward<Arguments>(arguments)...));
}

constexpr std::string_view rule_hint =
    "write collective=row:<SIZE,row: sizes rise, and the last row has none";

// "one_shot:<8KiB", or "one_shot".
ForcedRule parse_rule(Collective collective, std::string_view rule) {
  constexpr std::string_view before_size = ":<";
  const auto colon = rule.find(':');
  const std::string_view name = rule.substr(0, colon);
  const Algorithm* const row = find_algorithm(collective, name);
  if (row == nullptr)
    refuse(known_algorithms(collective), ": {}", unknown_algorithm(collective, name));
  if (colon == std::string_view::npos) return {.row = row};
  const std::string_view limit = rule.substr(colon);
  const auto bytes = limit.starts_with(before_size)
                         ? base::parse_integer(limit.substr(before_size.size()), true)
                         : std::nullopt;
  if (!bytes || *bytes <= 0) refuse(rule_hint, " has '{}', whose '{}' is no size", rule, limit);
  return {.bytes_end = static_cast<std::size_t>(*bytes), .row = row};
}

// No vector may be without a rule, and no rule without a vector.
void check(Collective collective, const std::vector<ForcedRule>& rules) {
  const std::string_view of = collective_name(collective);
  for (std::size_t i = 1; i < rules.size(); ++i) {
    if (rules[i - 1].bytes_end >= rules[i].bytes_end)
      refuse(rule_hint, ": '{}' of {} has no vectors left", rules[i].row->name, of);
  }
  if (rules.back().bytes_end != ForcedRule{}.bytes_end)
    refuse(rule_hint, ": no row of {} for vectors from {} bytes on", of, rules.back().bytes_end);
}

}  // namespace

Forced parse_forced(std::string_view text) {
  Forced forced;
  std::vector<ForcedRule>* rules = nullptr;  // of the collective that was named last
  Collective collective{};
  const auto finish = [&] {
    if (rules != nullptr) check(collective, *rules);
  };
  while (!text.empty()) {
    const std::string_view entry = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), entry.size() + 1));
    const auto equals = entry.find('=');
    const auto name = std::ranges::find(collective_names, entry.substr(0, equals));
    if (equals == std::string_view::npos ? rules == nullptr : name == collective_names.end()) {
      refuse(fmt::format("write collective=algorithm, separated by commas; collectives: {}",
                         fmt::join(collective_names, ", ")),
             " has '{}', which names no algorithm of a collective", entry);
    }
    if (equals != std::string_view::npos) {
      finish();
      collective = static_cast<Collective>(name - collective_names.begin());
      rules = &forced.rules[static_cast<std::size_t>(collective)];
      rules->clear();
    }
    rules->push_back(parse_rule(collective, entry.substr(equals + 1)));  // npos + 1: all of it
  }
  finish();
  return forced;
}

}  // namespace qpmesh::collectives
