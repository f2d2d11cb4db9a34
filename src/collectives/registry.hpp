// Every algorithm, and which of them runs.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <span>
#include <string_view>

#include "collectives/algorithm.hpp"
#include "qpmesh/collective.hpp"

namespace qpmesh::collectives {

inline constexpr std::array<std::string_view, collective_count> collective_names{
    "barrier", "broadcast", "reduce",   "allgather", "reduce_scatter", "allreduce",
    "gather",  "scatter",   "alltoall", "scan",      "exscan"};
// qpmesh::name_of, inline: every call has its name at hand for the message that it rarely needs.
inline std::string_view collective_name(Collective collective) noexcept {
  return collective_names[static_cast<std::size_t>(collective)];
}

// Every algorithm by the row that its file ends with, in the order of Collective. Where costs are
// equal, the first one of a collective runs.
// clang-format off
#define QPMESH_ALGORITHM_ROWS(row) \
  row(barrier_dissemination) row(barrier_one_shot) \
  row(broadcast_linear) row(broadcast_binomial) row(broadcast_scatter_allgather) \
  row(broadcast_chain) row(broadcast_one_shot) row(broadcast_double_buffered) row(broadcast_cma) \
  row(reduce_knomial) row(reduce_scatter_gather) row(reduce_one_shot) row(reduce_direct) \
  row(allgather_all_pairs) row(allgather_circulant) row(allgather_ring) row(allgather_one_shot) \
  row(allgather_double_buffered) row(allgather_cma) \
  row(reduce_scatter_all_pairs) row(reduce_scatter_circulant) row(reduce_scatter_pairwise) \
  row(reduce_scatter_one_shot) row(reduce_scatter_direct) row(reduce_scatter_cma) \
  row(allreduce_recursive_multiplying) row(allreduce_butterfly) row(allreduce_circulant) \
  row(allreduce_ring) row(allreduce_one_shot) row(allreduce_direct) row(allreduce_cma) \
  row(gather_linear) row(gather_binomial) row(gather_cma) \
  row(scatter_linear) row(scatter_binomial) row(scatter_cma) \
  row(alltoall_all_pairs) row(alltoall_bruck) row(alltoall_one_shot) \
  row(alltoall_double_buffered) row(alltoall_cma) \
  row(scan_doubling) \
  row(exscan_doubling)
// clang-format on
#define QPMESH_DECLARE(row) extern const Algorithm row;
QPMESH_ALGORITHM_ROWS(QPMESH_DECLARE)
#undef QPMESH_DECLARE

std::span<const Algorithm* const> algorithms() noexcept;                       // all of them
std::span<const Algorithm* const> algorithms(Collective collective) noexcept;  // never none
// The row of that name, or nullptr.
const Algorithm* find_algorithm(Collective collective, std::string_view name) noexcept;

// The algorithms that somebody wants, whatever they cost; nullptr: the cheapest.
using Forced = std::array<const Algorithm*, collective_count>;

// "allreduce=ring,broadcast=chain". Throws Error{bad_config} naming what is unknown and what is
// known.
Forced parse_forced(std::string_view text);

// Which algorithm runs, on ranks that know the same: the cheapest that applies. Decided once for
// all vectors of one power of two.
class Selector {
 public:
  Selector(const TopologyParams& topology, const Forced& forced) noexcept
      : topology_{topology}, forced_{forced} {}

  // wanted: by this call, or empty. operation: for errors. Throws Error{bad_argument} where what is
  // forced is unknown or does not apply; nothing is remembered then.
  const Algorithm& select(const CallShape& shape, Collective collective, std::string_view wanted,
                          std::string_view operation = {}) {
    // Nothing is decided where a row is forced, and a limit may lie inside the bucket.
    const Algorithm* const decided = remembered(shape, collective);
    const bool usual = wanted.empty() && !is_unusual(shape) && decided != nullptr;
    return usual && decided->applies(shape) ? *decided
                                            : decide(shape, collective, wanted, operation);
  }
  double predicted_s(const CallShape& shape, const Algorithm& row) const noexcept {
    return row.cost(shape, topology_.model(shape)).time_s;
  }

 private:
  static constexpr std::size_t bucket_count = 65;  // by the bit width of the bytes

  // What is decided for one element up to this long is right for all of them.
  static constexpr std::size_t usual_element_bytes_max = 16;
  static bool is_unusual(const CallShape& shape) noexcept {
    return shape.ordered || shape.uneven || shape.element_bytes > usual_element_bytes_max;
  }
  const Algorithm*& remembered(const CallShape& shape, Collective collective) noexcept {
    return decided_[static_cast<std::size_t>(collective)]
                   [static_cast<std::size_t>(std::bit_width(shape.bytes))];
  }
  const Algorithm& decide(const CallShape& shape, Collective collective, std::string_view wanted,
                          std::string_view operation);
  const Algorithm& cheapest(const CallShape& shape, Collective collective) const noexcept;

  TopologyParams topology_;
  Forced forced_;
  std::array<std::array<const Algorithm*, bucket_count>, collective_count> decided_{};
};

}  // namespace qpmesh::collectives
