// SPDX-License-Identifier: MIT
// A job of so many ranks, whoever started it: launched RANKS.
#include "check.h"

int main(int argc, char** argv) {
  begin(&argc, &argv);
  const int wanted = argc > 1 ? atoi(argv[1]) : 0;
  SAYS("the world has as many ranks as were started", size == wanted);
  int sum = -1, from = -1;
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  SAYS("they reduce", sum == wanted * (wanted - 1) / 2);
  MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 1, &from, 1, MPI_INT, MPI_ANY_SOURCE, 1,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  SAYS("and send", from == (rank + size - 1) % size);
  int all = 0;
  MPI_Reduce(&failures, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0 && all == 0) printf("right in a world of %d\n", size);
  MPI_Finalize();
  return failures != 0;
}
