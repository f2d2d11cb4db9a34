// One row per library that this build can compare with.
#include "bench/harness/baseline.hpp"

#if QPMESH_BENCH_MPI
#include "bench/baselines/mpi.hpp"
#endif

namespace qpmesh::bench {

std::span<const BaselineKind> baselines() noexcept {
#if QPMESH_BENCH_MPI
  static constexpr BaselineKind kinds[] = {{"mpi", &make_mpi_baseline}};
  return kinds;
#else
  return {};
#endif
}

}  // namespace qpmesh::bench
