// SPDX-License-Identifier: MIT
// The device itself as a baseline: what one RDMA write and a stream of them take between the same
// two processes, measured as ib_write_lat and ib_write_bw do. Nothing is matched, checked or
// delivered.
#pragma once

#include <memory>

#include "bench/harness/baseline.hpp"

namespace qpmesh::bench {

// Connects every rank with its neighbour (0-1, 2-3, …) by queue pairs of its own. Collective over
// the world. Throws Error where no device can be used.
std::unique_ptr<Baseline> make_verbs_baseline(Communicator& world);

}  // namespace qpmesh::bench
