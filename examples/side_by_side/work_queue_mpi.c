// SPDX-License-Identifier: MIT
// Rank 0 gives tasks to whoever is free: a result, at first an empty one, asks for the next task.
#include <mpi.h>
#include <stdio.h>

enum { tasks = 100, no_task = -1 };

int main(void) {
  MPI_Init(NULL, NULL);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int total = 0, result = 0, task = 0;
  for (int next = 0, working = size - 1; rank == 0 && working > 0;) {
    MPI_Status status;
    MPI_Recv(&result, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &status);
    total += result;
    task = next < tasks ? next++ : no_task;
    if (task == no_task) --working;
    MPI_Send(&task, 1, MPI_INT, status.MPI_SOURCE, 0, MPI_COMM_WORLD);
  }
  while (rank > 0 && task != no_task) {
    MPI_Send(&result, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    MPI_Recv(&task, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    result = task * task;
  }
  const int right = rank != 0 || total == (tasks - 1) * tasks * (2 * tasks - 1) / 6;
  if (rank == 0) printf("work queue: %s\n", right ? "right" : "wrong");
  MPI_Finalize();
  return right ? 0 : 1;
}
