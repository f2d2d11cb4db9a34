// The root sends every rank its block. Wins for long blocks, where the root's link is the limit
// whatever the tree, and on few ranks. Blocks of any lengths that only the root knows. Cost alpha +
// (N-2) max(o, S/N beta) + S/N beta. Source: the linear algorithm of Open MPI's basic collectives.
#include "collectives/algorithm.hpp"

namespace qpmesh::collectives {
namespace {

Task run(Group group, const Arguments& arguments) {
  const int root = arguments.root;
  Round<messages_in_flight_max> round{group};
  if (group.rank() != root) {
    round.receive(root, {arguments.out, arguments.bytes()});
    co_await round;
    co_return;
  }
  const Blocks& blocks = arguments.in_blocks;
  for (int distance = 1; distance < group.size(); ++distance) {
    const int to = group.plus(distance);
    round.send(to, {arguments.in + blocks.first_bytes(to), blocks.length_bytes(to)});
    if (round.full()) co_await round;
  }
  co_await round;
  group.copy(arguments.out, arguments.in + blocks.first_bytes(root), arguments.bytes());
}

Cost cost(const CallShape& shape, const CostModel& model) {
  Cost cost = Cost{}.add_round(model, shape.size - 1, shape.block_bytes());
  cost.time_s += std::max(0.0, model.copy_s(shape.block_bytes()) -
                                   model.latency_s);  // while the last message is on its way
  return cost;
}

}  // namespace

extern constexpr Algorithm scatter_linear{Collective::scatter, "linear", always, cost, run};

}  // namespace qpmesh::collectives
