// SPDX-License-Identifier: MIT
// The header serves C++: constants, functions and callbacks.
#include <mpi.h>

#include <complex>
#include <cstdio>
#include <vector>

namespace {

extern "C" void longest(void* in, void* inout, int* length, MPI_Datatype*) {
  for (int i = 0; i < *length; ++i) {
    const int mine = static_cast<int*>(in)[i];
    if (mine > static_cast<int*>(inout)[i]) static_cast<int*>(inout)[i] = mine;
  }
}

// Constants are values of their types, so that they may be so deduced.
template <typename Value>
MPI_Datatype type_of(Value);
template <>
MPI_Datatype type_of(double) {
  return MPI_DOUBLE;
}
template <>
MPI_Datatype type_of(std::complex<double>) {
  return MPI_CXX_DOUBLE_COMPLEX;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  bool right = true;

  const std::vector<double> mine(100, rank + 1.0);
  std::vector<double> sums(100);
  MPI_Allreduce(mine.data(), sums.data(), 100, type_of(1.0), MPI_SUM, MPI_COMM_WORLD);
  right = right && sums[99] == size * (size + 1) / 2.0;

  const std::complex<double> number{1.0, rank * 1.0};
  std::complex<double> sum;
  MPI_Allreduce(&number, &sum, 1, type_of(number), MPI_SUM, MPI_COMM_WORLD);
  right = right && sum == std::complex<double>(size, size * (size - 1) / 2.0);

  MPI_Op op = MPI_OP_NULL;
  MPI_Op_create(longest, 1, &op);
  int last = -1;
  MPI_Allreduce(&rank, &last, 1, MPI_INT, op, MPI_COMM_WORLD);
  MPI_Op_free(&op);
  right = right && last == size - 1;

  const bool yes = rank == 0;
  bool any = false;
  MPI_Allreduce(&yes, &any, 1, MPI_CXX_BOOL, MPI_LOR, MPI_COMM_WORLD);
  right = right && any;

  if (!right) std::fprintf(stderr, "rank %d of %d: wrong results\n", rank, size);
  MPI_Finalize();
  return right ? 0 : 1;
}
