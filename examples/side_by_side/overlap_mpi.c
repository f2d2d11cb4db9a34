// SPDX-License-Identifier: MIT
// A sum over the ranks is under way while each rank computes something else.
#include <mpi.h>
#include <stdio.h>

enum { count = 1 << 16 };

int main(void) {
  MPI_Init(NULL, NULL);
  int rank, size, done;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  static double values[count];
  for (int i = 0; i < count; ++i) values[i] = rank + 1.0;
  MPI_Request summing;
  MPI_Iallreduce(MPI_IN_PLACE, values, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &summing);
  long computed = 0;
  for (int i = 0; i < count; ++i) {
    computed += i;
    if (i % (1 << 12) == 0) MPI_Test(&summing, &done, MPI_STATUS_IGNORE);  // goes on
  }
  MPI_Wait(&summing, MPI_STATUS_IGNORE);
  int right = computed == 1L * count * (count - 1) / 2;
  for (int i = 0; i < count; ++i) right &= values[i] == size * (size + 1) / 2;
  if (rank == 0) printf("overlap: %s\n", right ? "right" : "wrong");
  MPI_Finalize();
  return right ? 0 : 1;
}
