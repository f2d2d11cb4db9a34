// The calls of MPI that we compare with, for the baseline in our own processes and for
// scripts/compare's processes of MPI alone. Only what knows no qpmesh but its headers.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <string>

#include "bench/harness/baseline.hpp"

namespace qpmesh::bench {

// "Open MPI v4.1.4", "MPICH Version: 4.0.2"
std::string mpi_library_version();

// MPI 3 counts with int. Throws std::length_error.
int mpi_count(std::size_t count);

// On MPI_COMM_WORLD.
void mpi_collective(const Baseline::Operation& operation);

}  // namespace qpmesh::bench
