// The shipped algorithms in virtual time: every rank runs the coroutine that the library runs, on a
// machine that is the model of collectives/cost.hpp and nothing else. No data moves, and memory is
// only addresses, so that 64 MiB on 16384 ranks fit.
#pragma once

#include "collectives/cost.hpp"
#include "collectives/registry.hpp"

namespace qpmesh::bench {

// 200 Gb/s between ranks of one core each.
inline constexpr collectives::CostModel reference_network{.latency_s = 1.35e-6,
                                                          .overhead_s = 0.15e-6,
                                                          .byte_s = 0.04e-9,
                                                          .reduced_byte_s = 0.05e-9,
                                                          .copied_byte_s = 0.05e-9,
                                                          .segment_bytes = std::size_t{4} << 10};

struct Prediction {
  collectives::Cost cost;     // messages and bytes: each of the rank that has most of them
  double total_messages = 0;  // of all ranks
};

// One call: elements of one byte, rank 0 is the root, no rank's input is its output, a reduction
// that the library knows. Where a collective has a block for each rank and they are of equal
// length, shape.bytes is a multiple of the ranks. Throws what the algorithm throws, and
// std::logic_error when ranks wait for each other for ever.
Prediction simulate(const collectives::Algorithm& algorithm, const collectives::CallShape& shape,
                    const collectives::CostModel& model);

}  // namespace qpmesh::bench
