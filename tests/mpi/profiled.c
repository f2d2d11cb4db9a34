// SPDX-License-Identifier: MIT
// The profiling interface: a program's own MPI_Send is called by the program, and the library does
// not call it.
#include "check.h"

static int sends, sums;

int MPI_Send(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
  ++sends;
  return PMPI_Send(data, count, type, to, tag, comm);
}

int MPI_Allreduce(const void* out, void* in, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm) {
  ++sums;
  return PMPI_Allreduce(out, in, count, type, op, comm);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  int got = -1, sum = -1;
  MPI_Request request;
  MPI_Irecv(&got, 1, MPI_INT, (rank + size - 1) % size, 1, MPI_COMM_WORLD, &request);
  MPI_Send(&rank, 1, MPI_INT, (rank + 1) % size, 1, MPI_COMM_WORLD);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  SAYS("the program's MPI_Send is called, and sends",
       sends == 1 && got == (rank + size - 1) % size);
  MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 2, &got, 1, MPI_INT, MPI_ANY_SOURCE, 2,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Bcast(&got, 1, MPI_INT, 0, MPI_COMM_WORLD);
  MPI_Comm copy;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  MPI_Comm_free(&copy);
  SAYS("the library calls none of the program's", sends == 1 && sums == 0);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  SAYS("the program's MPI_Allreduce is called, and reduces",
       sums == 1 && sum == size * (size - 1) / 2);
  PMPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  return failures != 0;
}
