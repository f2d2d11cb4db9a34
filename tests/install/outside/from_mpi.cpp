// SPDX-License-Identifier: MIT
// Starts from a running MPI, with the shared library and the MPI bootstrap of the package.
#include <qpmesh/mpi.hpp>
#include <qpmesh/qpmesh.hpp>

#include <array>
#include <cstdio>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  {
    qpmesh::MpiBootstrap bootstrap{MPI_COMM_WORLD};
    auto world = qpmesh::init(bootstrap);
    std::array<int, 1> ranks{1};
    world.allreduce(ranks, qpmesh::sum);
    if (world.rank() == 0) std::printf("%d ranks from MPI\n", ranks[0]);
    world.finish();
  }
  MPI_Finalize();
}
