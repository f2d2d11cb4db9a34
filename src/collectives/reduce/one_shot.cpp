// One shot: every rank publishes its vector, and the root reduces all of them where they lie.
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
  if (group.rank() != arguments.root) co_return;
  co_await node.all(1);
  reduce_parts(group, node, arguments);
}

Cost cost(const CallShape& shape, const CostModel& model) {
  const double bytes = shape.vector_bytes();
  const double others = (shape.ranks() - 1) * bytes;
  return CoreWork{shape, model}.steps(1).give(bytes).take_alone(others).reduce_alone(others).cost();
}

}  // namespace

extern constexpr Algorithm reduce_one_shot{Collective::reduce, "one_shot", fits_one_shot, cost,
                                           run};

}  // namespace qpmesh::collectives
