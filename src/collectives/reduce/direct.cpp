// Direct: every rank reduces its slice of the vector, and the root takes the other slices where
// they were reduced. See node/direct.hpp.
#include "collectives/node/direct.hpp"
#include "collectives/algorithm.hpp"

namespace qpmesh::collectives {
namespace {

Task run(Group group, const Arguments& arguments) {
  co_await reduce_in_slices(group, arguments, false);
}

Cost cost(const CallShape& shape, const CostModel& model) {
  const double bytes = shape.vector_bytes();
  const double others = bytes - shape.block_bytes();
  return slices_reduced(shape, model).take_alone(others).stream(bytes).stream_alone(bytes).cost();
}

}  // namespace

extern constexpr Algorithm reduce_direct{Collective::reduce, "direct", fits_staging, cost, run};

}  // namespace qpmesh::collectives
