// SPDX-License-Identifier: MIT
// What two ranks that are joined can do: bytes written and read back, latency, bandwidth.
//
// Each is collective of a world of two, of which rank 1 has the result: rank 0's means nothing. It
// takes about its budget, where it has one, and throws what the calls throw.
#pragma once

#include <cstdint>

#include "base/system.hpp"
#include "qpmesh/communicator.hpp"

namespace qpmesh::doctor {

struct Checked {
  std::int64_t bytes = 0;
  std::int64_t wrong_bytes = 0;
};
// Of a record's, an eager message's and a rendezvous's length, from rank 1 to rank 0 and back.
Checked check_bytes(Communicator& world, const base::System& system);

// Of 8 bytes one way: half of a round trip, the median.
double latency_us(Communicator& world, const base::System& system, double budget_us);

enum class Flow : std::uint8_t { to_low, to_high, both };  // low: rank 0
// 10^6 bytes a second, of 1 MiB messages; of both directions the sum.
double bandwidth_mb_s(Communicator& world, const base::System& system, double budget_us, Flow flow);

}  // namespace qpmesh::doctor
