// SPDX-License-Identifier: MIT
#include "collectives/registry.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

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

// What a row does not apply to, in words.
std::string reason(const CallShape& shape, const Algorithm& row) {
  const auto applies = [&](auto change) {
    CallShape other = shape;
    change(other);
    return row.applies(other);
  };
  if (applies([](CallShape& other) { other.ordered = false; })) return "an ordered reduction";
  if (applies([](CallShape& other) {
        if (other.uneven && other.bytes == 0) other.bytes = other.ranks_count();  // not known
        other.uneven = false;
      }))
    return row.collective == Collective::reduce_scatter ? "blocks that lie apart"
                                                        : "blocks of unequal lengths";
  if (applies([](CallShape& other) { other.uneven = true; })) return "blocks of equal lengths";
  if (applies([](CallShape& other) { other.one_node = true; }))
    return "ranks that do not share memory";
  if (applies([](CallShape& other) { other.cma = true; }))
    return "ranks that do not read each other's private memory";
  if (applies([](CallShape& other) { other.levels.in_order = true; }))
    return "ranks of a node that do not follow one another";
  if (applies([](CallShape& other) {
        other.levels.node_ranks_min = other.levels.node_ranks_max;
        other.levels.in_order = true;
      }))
    return "nodes with unequally many ranks";
  if (applies([](CallShape& other) {
        other.levels = {.nodes = 2, .node_ranks_min = 2, .node_ranks_max = 2, .in_order = true};
      }))
    return "ranks that are not several on some of several nodes";
  if (applies([](CallShape& other) { other.bytes = other.element_bytes = 1; }))
    return "vectors, or elements, so long";
  return fmt::format("{} ranks", shape.size);
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

const Algorithm& cheapest(const TopologyParams& topology, const CallShape& shape,
                          Collective collective) noexcept {
  const CostModel model = topology.model(shape);
  // Equal costs differ by what rounding leaves: the first row wins. Between nodes, where no
  // constant is better than a hundredth, times are equal that are so close, and fewer messages win:
  // at each of them the network waits for a rank. Of equally many, in a reduction, those win that
  // are clearly shorter, because ranks share in them: one combines while the bytes of another come.
  constexpr double rounding = 1 + 1e-9;
  constexpr double clearly = 1.1;
  const double about = shape.one_node ? rounding : 1.01;
  const auto sends_s = [&](const Cost& its) { return model.latency_s + its.bytes * model.byte_s; };
  const auto sends_less = [&](const Cost& its, const Cost& of_other) {
    if (shape.one_node) return false;
    if (its.messages != of_other.messages) return its.messages < of_other.messages;
    return is_reduction(collective) && sends_s(its) * clearly < sends_s(of_other);
  };
  const auto cheapest_of = [&](auto&& admits) {
    const auto for_each_cost = [&](auto&& take) {
      for (const Algorithm* const row : algorithms(collective)) {
        if (row->applies(shape) && admits(*row)) take(row, row->cost(shape, model));
      }
    };
    double least_s = std::numeric_limits<double>::infinity();
    for_each_cost(
        [&](const Algorithm*, const Cost& its) { least_s = std::min(least_s, its.time_s); });
    const Algorithm* best = nullptr;
    Cost of_best;
    for_each_cost([&](const Algorithm* row, const Cost& its) {
      if (its.time_s > least_s * about) return;
      const bool sooner = its.time_s * rounding < of_best.time_s && !sends_less(of_best, its);
      if (best != nullptr && !sooner && !sends_less(its, of_best)) return;
      best = row;
      of_best = its;
    });
    return best;
  };
  const Algorithm* best = nullptr;
  if (shape.one_node) {
    best = cheapest_of(
        [&](const Algorithm& row) { return is_meant_for(row, shape) && gives_common_bits(row); });
    if (best == nullptr) best = cheapest_of(gives_common_bits);
  }
  return best != nullptr ? *best : *cheapest_of([](const Algorithm&) { return true; });
}

const Algorithm& Predictions::cheapest(const CallShape& shape, Collective collective) noexcept {
  for (const Known& known : known_) {
    const bool same = known.row != nullptr && known.row->collective == collective;
    if (same && known.shape == shape) return *known.row;
  }
  Known& forgotten = known_[std::exchange(oldest_, (oldest_ + 1) % known_.size())];
  forgotten = {.shape = shape, .row = &collectives::cheapest(topology_, shape, collective)};
  return *forgotten.row;
}

std::string known_algorithms(Collective collective) {
  return "known: " + names_of(collective, nullptr);
}
std::string applicable_algorithms(Collective collective, const CallShape& shape) {
  return "these do: " + names_of(collective, &shape);
}
std::string unknown_algorithm(Collective collective, std::string_view name) {
  return fmt::format("'{}' is no algorithm of {}", name, name_of(collective));
}
std::string why_not(const CallShape& shape, const Algorithm& row) {
  return fmt::format("{} does not apply to {}", row.name, reason(shape, row));
}

}  // namespace collectives
}  // namespace qpmesh
