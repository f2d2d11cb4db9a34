// Ring allgather: every round passes the newest block to the next rank.
// Wins for long vectors on neighbour-friendly networks; any N; in place for free.
// Cost (N-1)(alpha + S/N beta).
// Source: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication
// operations in MPICH", 2005.
#include "collectives/algorithm.hpp"

namespace qpmesh::collectives {
namespace {

Task run(Group group, const Arguments& arguments) {
  const Blocks& blocks = arguments.out_blocks;
  const auto block = [&](int index) {
    return std::span{arguments.out + blocks.first_bytes(index), blocks.length_bytes(index)};
  };
  group.copy(block(group.rank()).data(), arguments.in, arguments.bytes());
  Round<1> round{group};
  for (int step = 0; step < group.size() - 1; ++step) {
    round.send(group.next(), block(group.minus(step)));
    round.receive(group.previous(), block(group.minus(step + 1)));
    co_await round;
  }
}

Cost cost(const CallShape& shape, const CostModel& model) {
  const Cost step = Cost{}.add_round(model, 1, shape.block_bytes());
  const double steps = shape.ranks() - 1;
  return {.time_s = steps * step.time_s + model.copy_s(shape.block_bytes()),
          .messages = steps,
          .bytes = steps * step.bytes};
}

}  // namespace

extern constexpr Algorithm allgather_ring{Collective::allgather, "ring", always, cost, run};

}  // namespace qpmesh::collectives
