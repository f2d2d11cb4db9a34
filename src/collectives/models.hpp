// Built-in models, where nothing was measured. Orders of magnitude decide between algorithms; the last tenth does not.
#pragma once

#include "collectives/cost.hpp"

namespace qpmesh::collectives {

// Shared memory, a core for every rank: a message is two copies through the cache, in segments.
inline constexpr Model shared_memory_model{.latency_s = 0.20e-6,
                                           .overhead_s = 0.06e-6,
                                           .byte_s = 0.13e-9,
                                           .reduced_byte_s = 0.05e-9,
                                           .copied_byte_s = 0.05e-9,
                                           .segment_bytes = std::size_t{32} << 10,
                                           .line_s = 0.07e-6};

// Shared memory, more ranks than cores: whoever waits gives its core away, so a round costs a turn of everybody.
inline constexpr Model shared_cores_model{.latency_s = 1.0e-6,
                                          .overhead_s = 0.10e-6,
                                          .byte_s = 0.15e-9,
                                          .reduced_byte_s = 0.08e-9,
                                          .copied_byte_s = 0.08e-9,
                                          .segment_bytes = std::size_t{32} << 10,
                                          .line_s = 0.8e-6};

// A network of 100 Gb/s.
inline constexpr Model network_model{.latency_s = 2.0e-6,
                                     .overhead_s = 0.25e-6,
                                     .byte_s = 0.08e-9,
                                     .reduced_byte_s = 0.05e-9,
                                     .copied_byte_s = 0.05e-9,
                                     .segment_bytes = std::size_t{4} << 10};

// Within a node, and as soon as several nodes take part.
struct Models {
  Model near = shared_memory_model;
  Model far = network_model;
};

}  // namespace qpmesh::collectives
