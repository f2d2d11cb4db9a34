// SPDX-License-Identifier: MIT
// The inner product of two vectors that lie in parts on the ranks.
#include <mpi.h>
#include <stdio.h>

int main(void) {
  const int count = 1000;  // of each rank
  MPI_Init(NULL, NULL);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  double mine = 0, product;
  for (int i = rank * count; i < (rank + 1) * count; ++i) mine += 2.0 * i;
  MPI_Allreduce(&mine, &product, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  const double n = 1.0 * size * count;
  const int right = product == n * (n - 1);
  if (rank == 0) printf("dot product: %s\n", right ? "right" : "wrong");
  MPI_Finalize();
  return right ? 0 : 1;
}
