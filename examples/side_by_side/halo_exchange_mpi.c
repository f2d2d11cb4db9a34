// SPDX-License-Identifier: MIT
// Each rank has a part of a line of points, and needs one point more at either end: its
// neighbours'.
#include <mpi.h>
#include <stdio.h>

enum { count = 100 };  // of each rank

int main(void) {
  MPI_Init(NULL, NULL);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int first = rank * count - 1;
  const int left = rank > 0 ? rank - 1 : MPI_PROC_NULL;
  const int right = rank < size - 1 ? rank + 1 : MPI_PROC_NULL;
  double points[count + 2];
  for (int i = left < 0 ? 0 : 1; i <= count + (right < 0 ? 1 : 0); ++i)
    points[i] = 1.0 * (first + i) * (first + i);
  MPI_Sendrecv(&points[1], 1, MPI_DOUBLE, left, 0, &points[count + 1], 1, MPI_DOUBLE, right, 0,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Sendrecv(&points[count], 1, MPI_DOUBLE, right, 0, &points[0], 1, MPI_DOUBLE, left, 0,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  int good = 1;  // the second difference of squares is 2
  for (int i = 1; i <= count; ++i) good &= points[i - 1] - 2 * points[i] + points[i + 1] == 2;
  MPI_Allreduce(MPI_IN_PLACE, &good, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
  if (rank == 0) printf("halo exchange: %s\n", good ? "right" : "wrong");
  MPI_Finalize();
  return good ? 0 : 1;
}
