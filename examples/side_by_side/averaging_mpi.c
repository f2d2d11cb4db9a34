// SPDX-License-Identifier: MIT
// The average of what the ranks have in a vector, such as gradients.
#include <mpi.h>
#include <stdio.h>

enum { count = 1000 };

int main(void) {
  MPI_Init(NULL, NULL);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  float gradient[count];
  for (int i = 0; i < count; ++i) gradient[i] = (float)(2 * rank + i);
  MPI_Allreduce(MPI_IN_PLACE, gradient, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  for (int i = 0; i < count; ++i) gradient[i] /= (float)size;
  int right = 1;
  for (int i = 0; i < count; ++i) right &= gradient[i] == (float)(size - 1 + i);
  if (rank == 0) printf("averaging: %s\n", right ? "right" : "wrong");
  MPI_Finalize();
  return right ? 0 : 1;
}
