// SPDX-License-Identifier: MIT
// The process: whether MPI has begun, and what it has then.
#pragma once

#include <atomic>
#include <utility>

#include "communicator.hpp"
#include "error.hpp"
#include "mpi.h"

namespace qpmesh::mpi {

enum class Phase { before_init, running, after_finalize };

struct Environment {
  std::atomic<Phase> phase = Phase::before_init;  // any thread may ask at any time
  int thread_level = MPI_THREAD_SINGLE;
};
extern Environment environment;

inline bool is_running() noexcept {
  return environment.phase.load(std::memory_order_relaxed) == Phase::running;
}
// Failure{MPI_ERR_OTHER}: says whether it is before MPI_Init or after MPI_Finalize.
[[noreturn]] void fail_outside();
inline void require_running() {
  if (!is_running()) [[unlikely]]
    fail_outside();
}
// A call on no communicator that means something between MPI_Init and MPI_Finalize alone: all but
// those of MPI 5.0, 11.4.1.
template <class Body>
int while_running(const char* function, Body&& body) {
  return guarded(function, [&] {
    require_running();
    std::forward<Body>(body)();
  });
}
// Ends all processes of the job, and says why; the exit code is the program's. Needs no memory;
// without any the others learn of it when this one has ended.
[[noreturn]] void abort_job(int code, const char* text);
// What MPI_COMM_WORLD stands on; null before MPI_Init and after MPI_Finalize.
qpmesh_communicator* world_mesh() noexcept;

}  // namespace qpmesh::mpi
