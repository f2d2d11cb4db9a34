// Direct: every rank reduces its slice of the vector, and takes the other slices where they were
// reduced. Cost per rank: Buffers read S + (N-1)/N S and write S; staging reads 3 S - 2 S/N and
// writes 2 S; two lines per chunk. See node/direct.hpp.
#include "collectives/node/direct.hpp"
#include "collectives/algorithm.hpp"

namespace qpmesh::collectives {
namespace {

Task run(Group group, const Arguments& arguments) {
  co_await reduce_in_slices(group, arguments, true);
}

Cost cost(const CallShape& shape, const CostModel& model) {
  const double bytes = shape.vector_bytes();
  const double others = bytes - shape.block_bytes();
  return slices_reduced(shape, model)
      .keep(shape.block_bytes())
      .take(others)
      .stream(2 * bytes)
      .cost();
}

}  // namespace

extern constexpr Algorithm allreduce_direct{Collective::allreduce, "direct", fits_staging, cost,
                                            run};

}  // namespace qpmesh::collectives
