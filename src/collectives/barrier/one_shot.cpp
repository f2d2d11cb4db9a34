// One shot: every rank publishes a flag, and looks at everybody's.
// See node/one_shot.hpp.
#include "collectives/node/one_shot.hpp"
#include "collectives/algorithm.hpp"
#include "collectives/node/work.hpp"

namespace qpmesh::collectives {
namespace {

Task run(Group group, const Arguments& /*arguments*/) {
  NodeOperation node{group};
  co_await node.own_slot();
  node.publish({});
  co_await node.all(1);
}

Cost cost(const CallShape& shape, const CostModel& model) {
  return CoreWork{shape, model}.steps(1).cost();
}

}  // namespace

extern constexpr Algorithm barrier_one_shot{Collective::barrier, "one_shot", fits_one_shot, cost,
                                            run};

}  // namespace qpmesh::collectives
