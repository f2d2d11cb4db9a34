// SPDX-License-Identifier: MIT
// Rank 0 gives tasks to workers, one of which is killed: its task is done by another one. MPI does
// not tell of the death: who is silent for two seconds counts as dead.
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

enum { tasks = 100, no_task = -1, seconds_max = 2 };

static int work(int task) { return task * task; }

static int rank, size, queue[tasks], queued, *given, *result;
static double* heard;
static MPI_Request* requests;

static void give(int worker) {
  given[worker] = queued > 0 ? queue[--queued] : no_task;
  MPI_Send(&given[worker], 1, MPI_INT, worker, 0, MPI_COMM_WORLD);
  requests[worker] = MPI_REQUEST_NULL;
  if (given[worker] == no_task) return;
  MPI_Irecv(&result[worker], 1, MPI_INT, worker, 0, MPI_COMM_WORLD, &requests[worker]);
  heard[worker] = MPI_Wtime();
}

int main(void) {
  MPI_Init(NULL, NULL);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  for (int task = 0; rank > 0;) {
    MPI_Recv(&task, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (task == no_task) return MPI_Finalize();
    if (rank == 1) raise(SIGKILL);
    const int done = work(task);
    MPI_Send(&done, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
  }
  given = calloc(size, sizeof(int));
  result = calloc(size, sizeof(int));
  heard = calloc(size, sizeof(double));
  requests = calloc(size, sizeof(MPI_Request));
  for (int task = 0; task < tasks; ++task) queue[queued++] = tasks - 1 - task;
  requests[0] = MPI_REQUEST_NULL;
  for (int worker = 1; worker < size; ++worker) give(worker);
  int total = 0, dead = 0;
  for (int busy = 1; busy;) {
    int worker, done;
    MPI_Testany(size, requests, &worker, &done, MPI_STATUS_IGNORE);
    if (done && worker != MPI_UNDEFINED) {
      total += result[worker];
      give(worker);
    }
    busy = 0;
    for (worker = 1; worker < size; ++worker) {
      if (requests[worker] == MPI_REQUEST_NULL) continue;
      busy = 1;
      if (MPI_Wtime() - heard[worker] < seconds_max) continue;
      requests[worker] = MPI_REQUEST_NULL;  // its message, should it come, is lost
      queue[queued++] = given[worker];
      ++dead;
    }
  }
  while (queued > 0) total += work(queue[--queued]);
  const int right = dead >= 1 && total == (tasks - 1) * tasks * (2 * tasks - 1) / 6;
  printf("failures: %s\n", right ? "right" : "wrong");
  fflush(stdout);
  return MPI_Abort(MPI_COMM_WORLD, right ? 0 : 1);  // MPI_Finalize waits for the dead
}
