// SPDX-License-Identifier: MIT
// The calls of MPI that we compare with, for the baseline in our own processes and for
// scripts/compare's processes of MPI alone. Only what knows no qpmesh but its headers.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "bench/harness/baseline.hpp"
#include "bench/harness/cut.hpp"

namespace qpmesh::bench {

// "Open MPI v4.1.4", "MPICH Version: 4.0.2"
std::string mpi_library_version();

// MPI 3 counts with int. Throws std::length_error.
int mpi_count(std::size_t count);

// On MPI_COMM_WORLD. kept: of persistent calls, a request for each list of arguments, null before
// the first one. Throws std::logic_error where this MPI has none of them.
void mpi_collective(const Baseline::Operation& operation, MPI_Request* kept = nullptr);

// An alltoall whose blocks have a type each.
struct TypedBlocks {
  explicit TypedBlocks(const Cut& cut);

  std::vector<int> counts;
  std::vector<int> displacements_bytes;
  std::vector<MPI_Datatype> types;
};
void mpi_alltoallw(const Baseline::Operation& operation, const TypedBlocks& blocks,
                   MPI_Request* kept = nullptr);

void mpi_send(Baseline::Outgoing message);
void mpi_receive(Baseline::Incoming message);
// requests: kept between the calls.
void mpi_send_and_receive(std::span<const Baseline::Outgoing> sends,
                          std::span<const Baseline::Incoming> receives, Waiting waiting,
                          std::vector<MPI_Request>& requests);

}  // namespace qpmesh::bench
