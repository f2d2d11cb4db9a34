// SPDX-License-Identifier: MIT
// The shipped algorithms in virtual time: every rank runs the coroutine that the library runs, on a
// machine that is the model of collectives/cost.hpp and nothing else. No data moves, and memory is
// only addresses, so that 64 MiB on 16384 ranks fit.
#pragma once

#include "collectives/cost.hpp"
#include "collectives/registry.hpp"

namespace qpmesh::bench {

// 200 Gb/s from node to node; on a node, messages through memory of twice that. All of them for
// ranks with a core each, and the same for every length.
inline constexpr collectives::TopologyParams reference{
    .constants = {.copied_byte_s = 0.05e-9,
                  .crossed_byte_s = 0.05e-9,
                  .memory_byte_s = 0.05e-9,
                  .reduced_byte_s = 0.05e-9,
                  .message_latency_s = 0.4e-6,
                  .message_payload_s = 0,
                  .message_overhead_s = 0.1e-6,
                  .message_byte_s = 0.02e-9,
                  .network = {.latency_s = 1.35e-6, .overhead_s = 0.15e-6, .byte_s = 0.04e-9}}};

struct Prediction {
  collectives::Cost cost;     // messages and bytes: each of the rank that has most of them
  double total_messages = 0;  // of all ranks
};

// One call: elements of one byte, rank 0 is the root, no rank's input is its output, a reduction
// that the library knows. Where a collective has a block for each rank and they are of equal
// length, shape.bytes is a multiple of the ranks. Of shapes with levels: each node has equally many
// ranks, one node's behind another's, which send messages there, too, and share one link to the
// others. Throws what the algorithm throws, and std::logic_error when ranks wait for each other for
// ever.
Prediction simulate(const collectives::Algorithm& algorithm, const collectives::CallShape& shape,
                    const collectives::TopologyParams& topology);

}  // namespace qpmesh::bench
