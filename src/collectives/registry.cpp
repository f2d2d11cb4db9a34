#include "collectives/registry.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "collectives/allgather/allgather.hpp"
#include "collectives/allreduce/allreduce.hpp"
#include "collectives/alltoall/alltoall.hpp"
#include "collectives/barrier/barrier.hpp"
#include "collectives/broadcast/broadcast.hpp"
#include "collectives/gather/gather.hpp"
#include "collectives/node/node.hpp"
#include "collectives/patterns/exchange.hpp"
#include "collectives/reduce/reduce.hpp"
#include "collectives/reduce_scatter/reduce_scatter.hpp"
#include "collectives/scan/scan.hpp"
#include "collectives/scatter/scatter.hpp"
#include "qpmesh/error.hpp"

namespace qpmesh {

std::string_view name_of(Collective collective) noexcept { return collectives::collective_name(collective); }

namespace collectives {
namespace {

bool always(const Shape& /*shape*/) { return true; }
bool any_order(const Shape& shape) { return !shape.ordered; }
// Up to so many ranks exchange and circulant leave nothing to win.
bool many_ranks(const Shape& shape) { return shape.size > ExchangePattern::one_round_max; }
bool equal_blocks(const Shape& shape) { return !shape.uneven; }

template <std::size_t row_count>
consteval std::array<Algorithm, row_count> numbered(std::array<Algorithm, row_count> rows) {
  std::uint32_t number = 0;
  for (Algorithm& row : rows) row.number = number++;
  return rows;
}

// In the order of Collective.
constexpr auto rows = numbered(std::array{
    Algorithm{Collective::barrier, "dissemination", always, barrier_dissemination_cost,
              barrier_dissemination},
    Algorithm{Collective::barrier, "one_shot", fits_one_shot, barrier_one_shot_cost, barrier_one_shot},
    Algorithm{Collective::broadcast, "flat", always, broadcast_flat_cost, broadcast_flat},
    Algorithm{Collective::broadcast, "binomial", always, broadcast_binomial_cost, broadcast_binomial},
    Algorithm{Collective::broadcast, "scatter_allgather", always, broadcast_scatter_allgather_cost,
              broadcast_scatter_allgather},
    Algorithm{Collective::broadcast, "chain", always, broadcast_chain_cost, broadcast_chain},
    Algorithm{Collective::broadcast, "one_shot", fits_one_shot, broadcast_one_shot_cost, broadcast_one_shot},
    Algorithm{Collective::broadcast, "staged", fits_staging, broadcast_staged_cost, broadcast_staged},
    Algorithm{Collective::broadcast, "single_copy", fits_single_copy, broadcast_single_copy_cost,
              broadcast_single_copy},
    Algorithm{Collective::reduce, "knomial", always, reduce_knomial_cost, reduce_knomial},
    Algorithm{Collective::reduce, "scatter_gather", any_order, reduce_scatter_gather_cost,
              reduce_scatter_gather},
    Algorithm{Collective::reduce, "one_shot", fits_one_shot, reduce_one_shot_cost, reduce_one_shot},
    Algorithm{Collective::reduce, "slices", fits_staging, reduce_slices_cost, reduce_slices},
    Algorithm{Collective::allgather, "exchange", always, allgather_exchange_cost, allgather_exchange},
    Algorithm{Collective::allgather, "circulant", always, allgather_circulant_cost, allgather_circulant},
    Algorithm{Collective::allgather, "ring", always, allgather_ring_cost, allgather_ring},
    Algorithm{Collective::allgather, "one_shot", fits_one_shot, allgather_one_shot_cost, allgather_one_shot},
    Algorithm{Collective::allgather, "staged", fits_staging, allgather_staged_cost, allgather_staged},
    Algorithm{Collective::allgather, "single_copy", fits_single_copy, allgather_single_copy_cost,
              allgather_single_copy},
    Algorithm{Collective::reduce_scatter, "exchange", always, reduce_scatter_exchange_cost,
              reduce_scatter_exchange},
    Algorithm{Collective::reduce_scatter, "circulant", any_order, reduce_scatter_circulant_cost,
              reduce_scatter_circulant},
    Algorithm{Collective::reduce_scatter, "pairwise", any_order, reduce_scatter_pairwise_cost,
              reduce_scatter_pairwise},
    Algorithm{Collective::reduce_scatter, "one_shot", fits_one_shot, reduce_scatter_one_shot_cost,
              reduce_scatter_one_shot},
    Algorithm{Collective::reduce_scatter, "slices", fits_staging, reduce_scatter_slices_cost,
              reduce_scatter_slices},
    Algorithm{Collective::reduce_scatter, "single_copy", fits_single_copy, reduce_scatter_single_copy_cost,
              reduce_scatter_single_copy},
    Algorithm{Collective::allreduce, "exchange", always, allreduce_exchange_cost, allreduce_exchange},
    Algorithm{Collective::allreduce, "butterfly", many_ranks, allreduce_butterfly_cost, allreduce_butterfly},
    Algorithm{Collective::allreduce, "circulant", any_order, allreduce_circulant_cost, allreduce_circulant},
    Algorithm{Collective::allreduce, "ring", any_order, allreduce_ring_cost, allreduce_ring},
    Algorithm{Collective::allreduce, "one_shot", fits_one_shot, allreduce_one_shot_cost, allreduce_one_shot},
    Algorithm{Collective::allreduce, "slices", fits_staging, allreduce_slices_cost, allreduce_slices},
    Algorithm{Collective::allreduce, "single_copy", fits_single_copy, allreduce_single_copy_cost,
              allreduce_single_copy},
    Algorithm{Collective::gather, "direct", always, gather_direct_cost, gather_direct},
    Algorithm{Collective::gather, "binomial", equal_blocks, gather_binomial_cost, gather_binomial},
    Algorithm{Collective::gather, "single_copy", fits_single_copy, gather_single_copy_cost,
              gather_single_copy},
    Algorithm{Collective::scatter, "direct", always, scatter_direct_cost, scatter_direct},
    Algorithm{Collective::scatter, "binomial", equal_blocks, scatter_binomial_cost, scatter_binomial},
    Algorithm{Collective::scatter, "single_copy", fits_single_copy, scatter_single_copy_cost,
              scatter_single_copy},
    Algorithm{Collective::alltoall, "spread", always, alltoall_spread_cost, alltoall_spread},
    Algorithm{Collective::alltoall, "bruck", equal_blocks, alltoall_bruck_cost, alltoall_bruck},
    Algorithm{Collective::alltoall, "one_shot", fits_one_shot, alltoall_one_shot_cost, alltoall_one_shot},
    Algorithm{Collective::alltoall, "staged", fits_staging, alltoall_staged_cost, alltoall_staged},
    Algorithm{Collective::alltoall, "single_copy", fits_single_copy, alltoall_single_copy_cost,
              alltoall_single_copy},
    Algorithm{Collective::scan, "doubling", always, scan_doubling_cost, scan_doubling},
    Algorithm{Collective::exscan, "doubling", always, exscan_doubling_cost, exscan_doubling},
});
static_assert(std::ranges::is_sorted(rows, {}, &Algorithm::collective));

std::string names_of(Collective collective, const Shape* shape) {
  std::string list;
  for (const Algorithm& row : algorithms(collective)) {
    if (shape != nullptr && !row.applies(*shape)) continue;
    list += fmt::format("{}{}", list.empty() ? "" : ", ", row.name);
  }
  return list;
}

// The caller knows what its call is named.
[[noreturn]] void refuse(std::string cause, std::string hint) {
  throw Error{{.code = ErrorCode::bad_argument, .cause = std::move(cause), .hint = std::move(hint)}};
}

std::string unknown_name(Collective collective, std::string_view name) {
  return fmt::format("'{}' is no algorithm of {}", name, name_of(collective));
}
std::string known_names(Collective collective) { return "known: " + names_of(collective, nullptr); }

// What a row does not apply to, in words.
std::string reason(const Shape& shape, const Algorithm& row) {
  const auto applies = [&](auto change) {
    Shape other = shape;
    change(other);
    return row.applies(other);
  };
  if (applies([](Shape& other) { other.ordered = false; })) return "an ordered reduction";
  if (applies([](Shape& other) { other.uneven = false; })) return "blocks of unequal lengths";
  if (applies([](Shape& other) { other.one_node = true; })) return "ranks that do not share memory";
  if (applies([](Shape& other) { other.single_copy = true; }))
    return "ranks that do not read each other's private memory";
  if (applies([](Shape& other) { other.bytes = other.element_bytes = 1; }))
    return "vectors, or elements, so long";
  return fmt::format("{} ranks", shape.size);
}

// The middle of a bucket stands for all of it.
Shape representative(Shape shape) noexcept {
  const auto width = std::bit_width(shape.bytes);
  if (width > 1) shape.bytes = std::size_t{3} << (width - 2);
  return shape;
}

}  // namespace

std::span<const Algorithm> algorithms() noexcept { return rows; }

std::span<const Algorithm> algorithms(Collective collective) noexcept {
  return {std::ranges::lower_bound(rows, collective, {}, &Algorithm::collective),
          std::ranges::upper_bound(rows, collective, {}, &Algorithm::collective)};
}

const Algorithm* find_algorithm(Collective collective, std::string_view name) noexcept {
  for (const Algorithm& row : algorithms(collective)) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

Forced parse_forced(std::string_view text) {
  Forced forced{};
  while (!text.empty()) {
    const std::string_view entry = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), entry.size() + 1));
    const std::string_view operation = entry.substr(0, entry.find('='));
    const auto name = std::ranges::find(collective_names, operation);
    if (name == collective_names.end() || operation.size() == entry.size()) {
      throw Error{
          {.code = ErrorCode::bad_config,
           .operation = "init",
           .cause = fmt::format(
               "algorithms (QPMESH_ALGORITHMS) has '{}', which names no algorithm of a collective", entry),
           .hint = fmt::format("write collective=algorithm, separated by commas; collectives: {}",
                               fmt::join(collective_names, ", "))}};
    }
    const auto collective = static_cast<Collective>(name - collective_names.begin());
    const std::string_view wanted = entry.substr(operation.size() + 1);
    const Algorithm* const row = find_algorithm(collective, wanted);
    if (row == nullptr) {
      throw Error{{.code = ErrorCode::bad_config,
                   .operation = "init",
                   .cause = "algorithms (QPMESH_ALGORITHMS): " + unknown_name(collective, wanted),
                   .hint = known_names(collective)}};
    }
    forced[static_cast<std::size_t>(collective)] = row;
  }
  return forced;
}

const Algorithm& Selector::decide(const Shape& shape, Collective collective, std::string_view wanted) {
  if (!wanted.empty()) {
    const Algorithm* const row = find_algorithm(collective, wanted);
    if (row == nullptr) refuse(unknown_name(collective, wanted), known_names(collective));
    return forced(shape, *row);
  }
  const auto index = static_cast<std::size_t>(collective);
  if (forced_[index] != nullptr) return forced(shape, *forced_[index]);
  if (is_unusual(shape)) return cheapest(shape, collective);
  const Algorithm*& decided = remembered(shape, collective);
  if (decided == nullptr) decided = &cheapest(representative(shape), collective);
  return decided->applies(shape) ? *decided : cheapest(shape, collective);
}

const Algorithm& Selector::forced(const Shape& shape, const Algorithm& row) const {
  if (!row.applies(shape)) {
    refuse(fmt::format("{} does not apply to {}", row.name, reason(shape, row)),
           "these do: " + names_of(row.collective, &shape));
  }
  return row;
}

const Algorithm& Selector::cheapest(const Shape& shape, Collective collective) const noexcept {
  const Model model = medium_.model(shape);
  constexpr double better = 1 - 1e-9;  // equal costs differ by what rounding leaves: the first row wins
  const Algorithm* best = nullptr;
  double best_s = 0;
  for (const Algorithm& row : algorithms(collective)) {
    if (!row.applies(shape)) continue;
    const double its_s = row.cost(shape, model).time_s;
    if (best != nullptr && its_s >= best_s * better) continue;
    best = &row;
    best_s = its_s;
  }
  return *best;
}

}  // namespace collectives
}  // namespace qpmesh
