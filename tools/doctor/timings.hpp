// What two ranks that are joined can do: bytes written and read back, latency, bandwidth.
#pragma once

#include <cstdint>

#include "base/system.hpp"
#include "qpmesh/communicator.hpp"

namespace qpmesh::doctor {

struct Timings {
  std::int64_t checked_bytes = 0;
  std::int64_t wrong_bytes = 0;
  double latency_us = 0;
  double bandwidth_mb_s = 0;  // from rank 1 to rank 0
  double back_mb_s = 0;       // from rank 0 to rank 1
  double both_mb_s = 0;       // of both directions at once, together
};

// Collective of a world of two. Takes about budget_ms; rank 1 has the result, rank 0 nothing.
// Throws what the calls throw.
Timings measure(Communicator& world, const base::System& system, std::int64_t budget_ms);

}  // namespace qpmesh::doctor
