// One shot: the root publishes the vector beside its flag, and everybody reads it there.
// See node/one_shot.hpp.
#include "collectives/node/one_shot.hpp"
#include "collectives/algorithm.hpp"
#include "collectives/node/work.hpp"

namespace qpmesh::collectives {
namespace {

Task run(Group group, const Arguments& arguments) {
  NodeOperation node{group};
  const std::size_t bytes = arguments.bytes();
  if (group.rank() == arguments.root) {
    co_await node.own_slot();
    node.publish({arguments.out, bytes});
    co_return;
  }
  co_await node.member(arguments.root, 1);
  group.copy(arguments.out, node.slot_data(arguments.root), bytes);
}

Cost cost(const CallShape& shape, const CostModel& model) {
  const double bytes = shape.vector_bytes();
  return CoreWork{shape, model}.steps(1).give_alone(bytes).take(bytes).cost();
}

}  // namespace

extern constexpr Algorithm broadcast_one_shot{Collective::broadcast, "one_shot", fits_one_shot,
                                              cost, run};

}  // namespace qpmesh::collectives
