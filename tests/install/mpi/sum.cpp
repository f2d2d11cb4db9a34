// SPDX-License-Identifier: MIT
// A program of MPI in C++.
#include <mpi.h>

#include <cstdio>
#include <numeric>
#include <vector>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  std::vector<int> ranks(static_cast<std::size_t>(size));
  MPI_Allgather(&rank, 1, MPI_INT, ranks.data(), 1, MPI_INT, MPI_COMM_WORLD);
  const int sum = std::accumulate(ranks.begin(), ranks.end(), 0);
  if (rank == 0) std::printf("%d ranks, their sum is %d\n", size, sum);
  MPI_Finalize();
}
