// One shot: every rank publishes its vector, and reduces all of them where they lie.
// See node/one_shot.hpp.
#include "collectives/node/one_shot.hpp"
#include "collectives/algorithm.hpp"
#include "collectives/node/work.hpp"

namespace qpmesh::collectives {
namespace {

Task run(Group group, const Arguments& arguments) {
  NodeOperation node{group};
  co_await node.own_slot();
  node.publish({arguments.in, arguments.bytes()});
  co_await node.all(1);
  reduce_parts(group, node, arguments);
}

Cost cost(const CallShape& shape, const CostModel& model) {
  const double bytes = shape.vector_bytes();
  const double others = (shape.ranks() - 1) * bytes;
  return CoreWork{shape, model}.steps(1).give(bytes).take(others).reduce(others).cost();
}

}  // namespace

extern constexpr Algorithm allreduce_one_shot{Collective::allreduce, "one_shot", fits_one_shot,
                                              cost, run};

}  // namespace qpmesh::collectives
