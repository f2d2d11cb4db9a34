// The root sends everybody the vector. Wins for small vectors on few ranks: one latency, and one
// turn on the core for each rank when ranks share cores. Cost alpha + (N-2) max(o, S beta) + S
// beta. Source: the linear algorithm of Open MPI's basic collectives.
#include "collectives/algorithm.hpp"

namespace qpmesh::collectives {
namespace {

Task run(Group group, const Arguments& arguments) {
  const std::span<std::byte> vector{arguments.out, arguments.bytes()};
  Round<messages_in_flight_max> round{group};
  if (group.rank() != arguments.root) {
    round.receive(arguments.root, vector);
    co_await round;
    co_return;
  }
  for (int distance = 1; distance < group.size(); ++distance) {
    round.send(group.plus(distance), vector);
    if (round.full()) co_await round;
  }
  co_await round;
}

Cost cost(const CallShape& shape, const CostModel& model) {
  return Cost{}.add_round(model, shape.size - 1, shape.vector_bytes());
}

}  // namespace

extern constexpr Algorithm broadcast_linear{Collective::broadcast, "linear", always, cost, run};

}  // namespace qpmesh::collectives
