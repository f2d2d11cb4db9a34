// All pairs: everybody sends its block to everybody. Wins for small blocks on few ranks: one
// round, so one latency, and one turn on the core for each rank when ranks share cores.
// Cost alpha + (N-2) max(o, S/N beta) + S/N beta.
// Source: the all-pairs algorithms of MSCCL++.
#include "collectives/algorithm.hpp"

namespace qpmesh::collectives {
namespace {

Task run(Group group, const Arguments& arguments) {
  const Blocks& blocks = arguments.out_blocks;
  group.copy(arguments.out + blocks.first_bytes(group.rank()), arguments.in, arguments.bytes());
  Round<messages_in_flight_max> round{group};
  for (int distance = 1; distance < group.size(); ++distance) {
    const int from = group.minus(distance);
    round.send(group.plus(distance), {arguments.in, arguments.bytes()});
    round.receive(from, {arguments.out + blocks.first_bytes(from), blocks.length_bytes(from)});
    if (round.full()) co_await round;
  }
  co_await round;
}

Cost cost(const CallShape& shape, const CostModel& model) {
  Cost cost = all_pairs_cost(shape.size, shape.block_bytes(), model);
  cost.time_s += model.copy_s(shape.block_bytes());
  return cost;
}

}  // namespace

extern constexpr Algorithm allgather_all_pairs{Collective::allgather, "all_pairs", always, cost,
                                               run};

}  // namespace qpmesh::collectives
