// All pairs: every rank sends each other one its block, beginning with the next rank, so that no
// rank is everybody's target at once; a window of them is in flight. Wins for all but tiny blocks.
// Blocks of any lengths. Cost (N-1)/w (alpha + (w-1) max(o, S/N beta) + S/N beta) for a window of
// w. Source: the scattered algorithm of MPICH.
#include "collectives/algorithm.hpp"

namespace qpmesh::collectives {
namespace {

Task run(Group group, const Arguments& arguments) {
  const Blocks& in = arguments.in_blocks;
  const Blocks& out = arguments.out_blocks;
  const int rank = group.rank();
  Round<messages_in_flight_max> round{group};
  for (int distance = 1; distance < group.size(); ++distance) {
    const int to = group.plus(distance);
    const int from = group.minus(distance);
    round.send(to, {arguments.in + in.first_bytes(to), in.length_bytes(to)});
    round.receive(from, {arguments.out + out.first_bytes(from), out.length_bytes(from)});
    if (round.full()) co_await round;
  }
  group.copy(arguments.out + out.first_bytes(rank), arguments.in + in.first_bytes(rank),
             in.length_bytes(rank));
  co_await round;
}

Cost cost(const CallShape& shape, const CostModel& model) {
  Cost cost = all_pairs_cost(shape.size, shape.block_bytes(), model);
  cost.time_s += shape.block_bytes() * model.copied_byte_s;
  return cost;
}

}  // namespace

extern constexpr Algorithm alltoall_all_pairs{Collective::alltoall, "all_pairs", always, cost, run};

}  // namespace qpmesh::collectives
