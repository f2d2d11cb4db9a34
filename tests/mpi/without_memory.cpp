// SPDX-License-Identifier: MIT
// No memory is left for C++, and the error that says so, or the end of the job, needs none: nothing
// is thrown through a function of C.
#include <unistd.h>

#include <cstdio>
#include <string_view>

#include "memory_switch.hpp"
#include "mpi.h"

namespace {

template <class Call>
int without_memory(const Call& call) {
  memory_is_there = false;
  int code = MPI_SUCCESS;
  bool threw = false;
  try {
    code = call();
  } catch (...) {
    threw = true;
  }
  memory_is_there = true;
  if (threw) std::fprintf(stderr, "a function of C threw\n");
  return threw ? MPI_SUCCESS : code;
}

int make_key() {
  return without_memory([] {
    int key = MPI_KEYVAL_INVALID;
    return MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &key, nullptr);
  });
}

}  // namespace

// Which end: "returned", "fatal" or "abort".
int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const std::string_view end = argc > 1 ? argv[1] : "";
  int rank = -1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (end == "returned") {
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    const int code = make_key();
    MPI_Finalize();
    return code == MPI_ERR_NO_MEM ? 0 : 1;
  }
  if (rank == 0) {
    if (end == "fatal") make_key();
    else without_memory([] { return MPI_Abort(MPI_COMM_WORLD, 7); });
  }
  // Rank 0 never comes. Of an abort all ranks have one code. Where rank 0 ends with a code of its
  // own this one waits for the launcher: of two that have ended it may see the second one first.
  if (end == "fatal") MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Barrier(MPI_COMM_WORLD);
  for (;;) ::pause();
}
