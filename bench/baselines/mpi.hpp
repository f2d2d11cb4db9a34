// SPDX-License-Identifier: MIT
// MPI as a baseline. This header knows no MPI, so that only one file is compiled against it.
#pragma once

#include <memory>

#include "bench/harness/baseline.hpp"

namespace qpmesh::bench {

// Initialises MPI, which this process must not have done; the returned object's end
// finalises it. Throws Error{bad_config} when no MPI launcher started this process, and
// when MPI counts other ranks than qpmesh does.
std::unique_ptr<Baseline> make_mpi_baseline(Communicator& world);

}  // namespace qpmesh::bench
