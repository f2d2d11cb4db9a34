#include "collectives/registry.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/errors.hpp"

namespace qpmesh {

std::string_view name_of(Collective collective) noexcept {
  return collectives::collective_name(collective);
}

namespace collectives {
namespace {

// Addresses, so that nothing depends on which file is initialised first.
#define QPMESH_ADDRESS(row) &(row),
constexpr std::array table{QPMESH_ALGORITHM_ROWS(QPMESH_ADDRESS)};
#undef QPMESH_ADDRESS

std::string names_of(Collective collective, const CallShape* shape) {
  std::string list;
  for (const Algorithm* const row : algorithms(collective)) {
    if (shape != nullptr && !row->applies(*shape)) continue;
    list += fmt::format("{}{}", list.empty() ? "" : ", ", row->name);
  }
  return list;
}

std::string unknown_name(Collective collective, std::string_view name) {
  return fmt::format("'{}' is no algorithm of {}", name, name_of(collective));
}
std::string known_names(Collective collective) { return "known: " + names_of(collective, nullptr); }

// What a row does not apply to, in words.
std::string reason(const CallShape& shape, const Algorithm& row) {
  const auto applies = [&](auto change) {
    CallShape other = shape;
    change(other);
    return row.applies(other);
  };
  if (applies([](CallShape& other) { other.ordered = false; })) return "an ordered reduction";
  if (applies([](CallShape& other) { other.uneven = false; })) return "blocks of unequal lengths";
  if (applies([](CallShape& other) { other.one_node = true; }))
    return "ranks that do not share memory";
  if (applies([](CallShape& other) { other.cma = true; }))
    return "ranks that do not read each other's private memory";
  if (applies([](CallShape& other) { other.bytes = other.element_bytes = 1; }))
    return "vectors, or elements, so long";
  return fmt::format("{} ranks", shape.size);
}

// The middle of a bucket stands for all of it.
CallShape representative(CallShape shape) noexcept {
  const auto width = std::bit_width(shape.bytes);
  if (width > 1) shape.bytes = std::size_t{3} << (width - 2);
  return shape;
}

}  // namespace

std::span<const Algorithm* const> algorithms() noexcept { return table; }

std::span<const Algorithm* const> algorithms(Collective collective) noexcept {
  // Not equal_range: clang 14, which lints, cannot read the range that it returns.
  return {std::ranges::lower_bound(table, collective, {}, &Algorithm::collective),
          std::ranges::upper_bound(table, collective, {}, &Algorithm::collective)};
}

const Algorithm* find_algorithm(Collective collective, std::string_view name) noexcept {
  const auto rows = algorithms(collective);
  const auto row = std::ranges::find(rows, name, &Algorithm::name);
  return row == rows.end() ? nullptr : *row;
}

Forced parse_forced(std::string_view text) {
  Forced forced{};
  while (!text.empty()) {
    const std::string_view entry = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), entry.size() + 1));
    const std::string_view operation = entry.substr(0, entry.find('='));
    const auto name = std::ranges::find(collective_names, operation);
    if (name == collective_names.end() || operation.size() == entry.size()) {
      base::throw_error(
          {ErrorCode::bad_config}, "init",
          fmt::format("write collective=algorithm, separated by commas; collectives: {}",
                      fmt::join(collective_names, ", ")),
          "algorithms (QPMESH_ALGORITHMS) has '{}', which names no algorithm of a collective",
          entry);
    }
    const auto collective = static_cast<Collective>(name - collective_names.begin());
    const std::string_view wanted = entry.substr(operation.size() + 1);
    const Algorithm* const row = find_algorithm(collective, wanted);
    if (row == nullptr) {
      base::throw_error({ErrorCode::bad_config}, "init", known_names(collective),
                        "algorithms (QPMESH_ALGORITHMS): {}", unknown_name(collective, wanted));
    }
    forced[static_cast<std::size_t>(collective)] = row;
  }
  return forced;
}

const Algorithm& Selector::decide(const CallShape& shape, Collective collective,
                                  std::string_view wanted, std::string_view operation) {
  const Algorithm* const forced = wanted.empty() ? forced_[static_cast<std::size_t>(collective)]
                                                 : find_algorithm(collective, wanted);
  if (forced == nullptr && !wanted.empty())
    base::bad_argument(operation, known_names(collective), "{}", unknown_name(collective, wanted));
  if (forced != nullptr && !forced->applies(shape)) {
    base::bad_argument(operation, "these do: " + names_of(collective, &shape),
                       "{} does not apply to {}", forced->name, reason(shape, *forced));
  }
  if (forced != nullptr) return *forced;
  if (is_unusual(shape)) return cheapest(shape, collective);
  const Algorithm*& decided = remembered(shape, collective);
  if (decided == nullptr) decided = &cheapest(representative(shape), collective);
  return decided->applies(shape) ? *decided : cheapest(shape, collective);
}

const Algorithm& Selector::cheapest(const CallShape& shape, Collective collective) const noexcept {
  const CostModel model = topology_.model(shape);
  // Equal costs differ by what rounding leaves: the first row wins.
  constexpr double better = 1 - 1e-9;
  const Algorithm* best = nullptr;
  double best_s = 0;
  for (const Algorithm* const row : algorithms(collective)) {
    if (!row->applies(shape)) continue;
    const double its_s = row->cost(shape, model).time_s;
    if (best != nullptr && its_s >= best_s * better) continue;
    best = row;
    best_s = its_s;
  }
  return *best;
}

}  // namespace collectives
}  // namespace qpmesh
