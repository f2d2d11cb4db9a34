// SPDX-License-Identifier: MIT
// One row per library that this build can compare with.
#include "bench/harness/baseline.hpp"

#if QPMESH_BENCH_MPI
#include "bench/baselines/mpi.hpp"
#endif
#if QPMESH_BENCH_VERBS
#include "bench/baselines/verbs.hpp"
#endif

#include <array>

namespace qpmesh::bench {

std::span<const BaselineKind> baselines() noexcept {
  static constexpr auto kinds = std::to_array<BaselineKind>({
#if QPMESH_BENCH_MPI
    {"mpi", &make_mpi_baseline},
#endif
#if QPMESH_BENCH_VERBS
        {"verbs", &make_verbs_baseline},
#endif
    {
      "", nullptr
    }
  });
  return std::span{kinds}.first(kinds.size() - 1);
}

}  // namespace qpmesh::bench
