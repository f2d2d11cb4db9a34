// The process: whether MPI has begun, and what it has then.
#pragma once

#include <atomic>

#include "communicator.hpp"
#include "mpi.h"

namespace qpmesh::mpi {

enum class Phase { before_init, running, after_finalize };

struct Environment {
  std::atomic<Phase> phase = Phase::before_init;  // any thread may ask at any time
  int thread_level = MPI_THREAD_SINGLE;
};
extern Environment environment;

inline bool is_running() noexcept { return environment.phase == Phase::running; }
// Failure{MPI_ERR_OTHER} outside of MPI_Init and MPI_Finalize.
void require_running();
// Ends all processes of the job; the exit code is the program's.
[[noreturn]] void abort_job(int code, const char* text);
// What MPI_COMM_WORLD stands on; null before MPI_Init and after MPI_Finalize.
qpmesh_communicator* world_mesh() noexcept;

}  // namespace qpmesh::mpi
