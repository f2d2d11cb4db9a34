// Every rank sends the root its block. Wins for long blocks, where the root's link is the limit
// whatever the tree, and on few ranks. Blocks of any lengths that only the root knows. Cost alpha +
// (N-2) max(o, S/N beta) + S/N beta. Source: the linear algorithm of Open MPI's basic collectives.
#include "collectives/algorithm.hpp"

namespace qpmesh::collectives {
namespace {

Task run(Group group, const Arguments& arguments) {
  const int root = arguments.root;
  Round<messages_in_flight_max> round{group};
  if (group.rank() != root) {
    round.send(root, {arguments.in, arguments.bytes()});
    co_await round;
    co_return;
  }
  const Blocks& blocks = arguments.out_blocks;
  group.copy(arguments.out + blocks.first_bytes(root), arguments.in,
             arguments.bytes());  // nothing has come yet
  for (int distance = 1; distance < group.size(); ++distance) {
    const int from = group.plus(distance);
    round.receive(from, {arguments.out + blocks.first_bytes(from), blocks.length_bytes(from)});
    if (round.full()) co_await round;
  }
  co_await round;
}

Cost cost(const CallShape& shape, const CostModel& model) {
  const double messages = shape.size > 1 ? 1 : 0;
  return {.time_s = Cost{}.add_round(model.one_way(), shape.size - 1, shape.block_bytes()).time_s +
                    std::max(0.0, model.copy_s(shape.block_bytes()) - model.latency_s),
          .messages = messages,
          .bytes = messages * shape.block_bytes()};
}

}  // namespace

extern constexpr Algorithm gather_linear{Collective::gather, "linear", always, cost, run};

}  // namespace qpmesh::collectives
