// SPDX-License-Identifier: MIT
#include "collectives/cost.hpp"

#include "base/fill_guard.hpp"

namespace qpmesh::collectives {
namespace {

// Of a block that a message's record has no room for.
constexpr double inline_bytes_max = 192;

constexpr double page_bytes = 4096;

// Two cores that copy one message together need 0.5 to 0.65 of the time of one (measured,
// docs/decisions/0020).
constexpr double helped_share = 0.58;

// Ranks of a node send through one link at the same time. Where some of the peers are on the same
// node, that many of the bytes do not go there. Those that share a core post one after another; of
// a node whose ranks the network joins, they move the bytes one after another, too.
CostModel network(const Constants& constants, const CallShape& shape, int ranks_per_link,
                  int ranks_per_core) noexcept {
  const double turns = shape.levels.nodes > 0
                           ? std::min(shape.levels.node_ranks_max, ranks_per_core)
                           : ranks_per_core;
  double byte_s = std::max<double>(ranks_per_link, turns) * constants.network.byte_s;
  if (shape.levels.nodes > 0) {
    const double here = shape.levels.node_ranks_max;
    const double others = (shape.ranks() - here) / (shape.ranks() - 1);
    byte_s = others * here * constants.network.byte_s + (1 - others) * constants.message_byte_s;
  }
  return {.latency_s = constants.network.latency_s + (turns - 1) * constants.network.overhead_s,
          .overhead_s = turns * constants.network.overhead_s,
          .byte_s = byte_s,
          .reduced_byte_s = constants.reduced_byte_s,
          .copied_byte_s = constants.crossed_byte_s,  // as what a device wrote
          .segment_bytes = std::size_t{4} << 10,
          .link_share = shape.levels.nodes > 0 ? constants.network.byte_s / byte_s : 1};
}

// A message is two copies by two ranks. Ranks that share a core do what they do one after another,
// and whoever waits gives the core to everybody on it; what stays on the core does not cross to
// another, and its copies cost half. The system looks up every page that it copies: its bytes cost
// about as much where both ranks have one core as between cores (measured, 0.1 ns), and no more for
// long vectors. A call costs `here` times as much: more than was measured (with two on a core
// 2.7 µs beside 2.0 to 2.5), so that staging ends where it would lose too much while cores share no
// cache.
CostModel shared_memory(const Constants& constants, const CallShape& shape,
                        double ranks_per_core) noexcept {
  const double here = std::clamp(ranks_per_core, 1.0, std::max(1.0, shape.ranks()));
  const double others = shape.size > 1 ? (shape.ranks() - here) / (shape.ranks() - 1) : 0;
  const double turns_s = here > 1 ? here * constants.turn_s : 0;
  // Every rank has a vector that goes in, and one that comes out.
  const bool fits = 2 * shape.ranks() * shape.vector_bytes() <= constants.cache_bytes;
  const double more_s = fits ? 0 : std::max(0.0, constants.memory_byte_s - constants.copied_byte_s);
  // What is staged is still in its writer's own cache when another core reads it, or not any more.
  const bool stays = 2 * shape.vector_bytes() <= constants.core_cache_bytes;
  const bool has_payload = shape.block_bytes() > inline_bytes_max;
  const bool helped = shape.cma && here <= 1 && shape.block_bytes() >= base::filled_bytes_min;
  return {
      .latency_s =
          constants.message_latency_s + (has_payload ? constants.message_payload_s : 0) + turns_s,
      .overhead_s = here * constants.message_overhead_s,
      .byte_s = here * (constants.message_byte_s * (1 + others) / 2 + more_s),
      .reduced_byte_s = here * constants.reduced_byte_s,
      .copied_byte_s = here * (constants.copied_byte_s + more_s),
      .segment_bytes = std::size_t{32} << 10,
      .node = {.step_s = here > 1 ? turns_s : constants.line_s,
               .look_s = constants.line_s / 8,  // the lines travel at the same time
               .copied_byte_s = constants.copied_byte_s,
               .crossed_byte_s = stays ? constants.crossed_byte_s : constants.evicted_byte_s,
               .streamed_byte_s = more_s / 2,
               .past_byte_s = constants.past_byte_s,
               .reduced_byte_s = constants.reduced_byte_s,
               .system_copy_s = here * constants.system_copy_s,
               .system_byte_s = constants.system_page_s / page_bytes + constants.crossed_byte_s +
                                (here > 1 ? constants.copied_byte_s : 0),
               .ranks_per_core = here},
      .helped_share = helped ? helped_share : 1};
}

}  // namespace

CostModel TopologyParams::model(const CallShape& shape) const noexcept {
  CostModel model = shares_memory ? shared_memory(constants, shape, ranks_per_core)
                                  : network(constants, shape, ranks_per_link, ranks_per_core);
  model.topology = this;
  return model;
}

}  // namespace qpmesh::collectives
