// Every algorithm, and which of them runs.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "collectives/algorithm.hpp"
#include "collectives/topology_params.hpp"
#include "qpmesh/collective.hpp"

namespace qpmesh::collectives {

inline constexpr std::array<std::string_view, collective_count> collective_names{
    "barrier", "broadcast", "reduce",   "allgather", "reduce_scatter", "allreduce",
    "gather",  "scatter",   "alltoall", "scan",      "exscan"};
// qpmesh::name_of, inline: every call has its name at hand for the message that it rarely needs.
inline std::string_view collective_name(Collective collective) noexcept {
  return collective_names[static_cast<std::size_t>(collective)];
}

// Each is the last line of its own file. Where costs are equal, the first one of a collective runs.
extern const Algorithm barrier_dissemination, barrier_one_shot;
extern const Algorithm broadcast_linear, broadcast_binomial, broadcast_scatter_allgather,
    broadcast_chain, broadcast_one_shot, broadcast_double_buffered, broadcast_cma;
extern const Algorithm reduce_knomial, reduce_scatter_gather, reduce_one_shot, reduce_direct;
extern const Algorithm allgather_all_pairs, allgather_circulant, allgather_ring, allgather_one_shot,
    allgather_double_buffered, allgather_cma;
extern const Algorithm reduce_scatter_all_pairs, reduce_scatter_circulant, reduce_scatter_pairwise,
    reduce_scatter_one_shot, reduce_scatter_direct, reduce_scatter_cma;
extern const Algorithm allreduce_recursive_multiplying, allreduce_butterfly, allreduce_circulant,
    allreduce_ring, allreduce_one_shot, allreduce_direct, allreduce_cma;
extern const Algorithm gather_linear, gather_binomial, gather_cma;
extern const Algorithm scatter_linear, scatter_binomial, scatter_cma;
extern const Algorithm alltoall_all_pairs, alltoall_bruck, alltoall_one_shot,
    alltoall_double_buffered, alltoall_cma;
extern const Algorithm scan_doubling;
extern const Algorithm exscan_doubling;

std::span<const Algorithm* const> algorithms() noexcept;  // all of them
std::span<const Algorithm* const> algorithms(
    Collective collective) noexcept;  // at least one, never empty
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

  // wanted: by this call, or empty. Throws Error{bad_argument}, without an operation, where what is
  // forced is unknown or does not apply; nothing is remembered then.
  const Algorithm& select(const CallShape& shape, Collective collective, std::string_view wanted) {
    // Nothing is decided where a row is forced, and a limit may lie inside the bucket.
    const Algorithm* const decided = remembered(shape, collective);
    const bool usual = wanted.empty() && !is_unusual(shape) && decided != nullptr;
    return usual && decided->applies(shape) ? *decided : decide(shape, collective, wanted);
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
  const Algorithm& decide(const CallShape& shape, Collective collective, std::string_view wanted);
  const Algorithm& forced(const CallShape& shape, const Algorithm& row) const;
  const Algorithm& cheapest(const CallShape& shape, Collective collective) const noexcept;

  TopologyParams topology_;
  Forced forced_;
  std::array<std::array<const Algorithm*, bucket_count>, collective_count> decided_{};
};

}  // namespace qpmesh::collectives
