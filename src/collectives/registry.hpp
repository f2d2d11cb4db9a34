// SPDX-License-Identifier: MIT
// Every algorithm.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
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
  row(barrier_dissemination) row(barrier_one_shot) row(barrier_leaders) row(barrier_multiport) \
  row(broadcast_linear) row(broadcast_binomial) row(broadcast_scatter_allgather) \
  row(broadcast_chain) row(broadcast_one_shot) row(broadcast_double_buffered) \
  row(broadcast_double_buffered_streamed) row(broadcast_cma) row(broadcast_leaders) \
  row(broadcast_lanes) row(broadcast_multiport) row(broadcast_multiport_sliced) \
  row(reduce_knomial) row(reduce_scatter_gather) row(reduce_chain) row(reduce_one_shot) \
  row(reduce_direct) row(reduce_direct_streamed) row(reduce_one_pass) \
  row(reduce_one_pass_streamed) row(reduce_cma) row(reduce_leaders) row(reduce_lanes) \
  row(reduce_multiport) row(reduce_multiport_sliced) \
  row(allgather_all_pairs) row(allgather_circulant) row(allgather_ring) row(allgather_one_shot) \
  row(allgather_double_buffered) row(allgather_double_buffered_streamed) row(allgather_cma) \
  row(allgather_leaders) row(allgather_lanes) row(allgather_multiport) \
  row(reduce_scatter_all_pairs) row(reduce_scatter_circulant) row(reduce_scatter_pairwise) \
  row(reduce_scatter_one_shot) row(reduce_scatter_direct) row(reduce_scatter_direct_streamed) \
  row(reduce_scatter_cma) row(reduce_scatter_leaders) row(reduce_scatter_lanes) \
  row(reduce_scatter_multiport) \
  row(allreduce_recursive_multiplying) row(allreduce_recursive_doubling) row(allreduce_butterfly) \
  row(allreduce_circulant) row(allreduce_ring) row(allreduce_one_shot) row(allreduce_direct) \
  row(allreduce_direct_streamed) \
  row(allreduce_one_pass) row(allreduce_one_pass_streamed) row(allreduce_cma) \
  row(allreduce_leaders) row(allreduce_lanes) row(allreduce_multiport) \
  row(allreduce_multiport_sliced) \
  row(gather_linear) row(gather_binomial) row(gather_one_shot) row(gather_one_shot_v) \
  row(gather_double_buffered) row(gather_double_buffered_streamed) row(gather_cma) \
  row(gather_leaders) row(gather_leaders_v) row(gather_multiport) \
  row(scatter_linear) row(scatter_binomial) row(scatter_one_shot) row(scatter_one_shot_v) \
  row(scatter_double_buffered) row(scatter_double_buffered_streamed) row(scatter_cma) \
  row(scatter_leaders) row(scatter_leaders_v) row(scatter_multiport) \
  row(alltoall_all_pairs) row(alltoall_bruck) row(alltoall_one_shot) row(alltoall_one_shot_v) \
  row(alltoall_double_buffered) row(alltoall_double_buffered_streamed) row(alltoall_cma) \
  row(alltoall_lanes) row(alltoall_multiport) row(alltoall_multiport_v) \
  row(scan_doubling) row(scan_chain) row(scan_binary_tree) row(scan_one_shot) row(scan_one_pass) \
  row(scan_one_pass_streamed) row(scan_cma) row(scan_leaders) row(scan_lanes) row(scan_multiport) \
  row(exscan_doubling) row(exscan_chain) row(exscan_binary_tree) row(exscan_one_shot) \
  row(exscan_one_pass) row(exscan_one_pass_streamed) row(exscan_cma) row(exscan_leaders) \
  row(exscan_lanes) row(exscan_multiport)
// clang-format on
#define QPMESH_DECLARE(row) extern const Algorithm row;
QPMESH_ALGORITHM_ROWS(QPMESH_DECLARE)
#undef QPMESH_DECLARE

std::span<const Algorithm* const> algorithms() noexcept;                       // all of them
std::span<const Algorithm* const> algorithms(Collective collective) noexcept;  // never none
// The row of that name, or nullptr.
const Algorithm* find_algorithm(Collective collective, std::string_view name) noexcept;

// May it run calls of that length on a node where others do?
constexpr bool is_meant_for(const Algorithm& row, const CallShape& shape) noexcept {
  return shape.bytes >= row.meant_from_bytes;
}
// The cheapest by prediction that applies, and without shared memory of those about as cheap the
// one of fewest messages, and of fewest bytes; where ranks share memory, of those that give the
// same bits.
const Algorithm& cheapest(const TopologyParams& topology, const CallShape& shape,
                          Collective collective) noexcept;

// The same, remembered for the last few shapes: programs call with the same ones again, and over
// two levels a prediction asks for those of all parts, which takes microseconds. One thread at a
// time.
class Predictions {
 public:
  explicit Predictions(const TopologyParams& topology) noexcept : topology_{topology} {}

  const TopologyParams& topology() const noexcept { return topology_; }
  const Algorithm& cheapest(const CallShape& shape, Collective collective) noexcept;

 private:
  struct Known {
    CallShape shape{};
    const Algorithm* row = nullptr;
  };

  TopologyParams topology_;
  std::array<Known, 8> known_{};
  std::size_t oldest_ = 0;
};

// What an error says: the names that there are, or those of rows that apply; the name that there is
// not; why a row does not apply.
std::string known_algorithms(Collective collective);
std::string applicable_algorithms(Collective collective, const CallShape& shape);
std::string unknown_algorithm(Collective collective, std::string_view name);
std::string why_not(const CallShape& shape, const Algorithm& row);

}  // namespace qpmesh::collectives
