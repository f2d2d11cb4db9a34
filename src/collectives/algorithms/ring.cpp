// SPDX-License-Identifier: MIT
// Ring: every message goes to the next rank. Wins for long vectors where links to far ranks are
// slower than those to neighbours.
// Allgather: every round passes the newest block on; in place for free. Cost
// (N-1)(alpha + S/N beta).
// Allreduce: a reduce-scatter round the ring, then the allgather; commutative reductions only. Cost
// 2 (N-1)(alpha + S/N beta) + (N-1)/N S gamma.
// Sources: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication
// operations in MPICH", 2005; P. Patarasuk, X. Yuan, "Bandwidth optimal all-reduce algorithms for
// clusters of workstations", 2009.
#include "collectives/algorithm.hpp"

namespace qpmesh::collectives {
namespace {

Task allgather(Group group, const Arguments& arguments) {
  const Blocks& blocks = arguments.out_blocks;
  const auto block = [&](int index) { return blocks.of(arguments.out, index); };
  group.copy(block(group.rank()).data(), arguments.in, arguments.bytes());
  Round<1> round{group};
  for (int step = 0; step < group.size() - 1; ++step) {
    round.send(group.next(), block(group.minus(step)));
    round.receive(group.previous(), block(group.minus(step + 1)));
    co_await round;
  }
}

// Of ranks that follow one another on their nodes, one has a neighbour elsewhere.
CostModel of_neighbours(const CallShape& shape, const CostModel& model) {
  return shape.levels.in_order ? model.alone() : model;
}

Cost allgather_cost(const CallShape& shape, const CostModel& shared) {
  const CostModel model = of_neighbours(shape, shared);
  const Cost step = Cost{}.add_round(model, 1, shape.block_bytes());
  const double steps = shape.ranks() - 1;
  return {.time_s = steps * step.time_s + model.copy_s(shape.block_bytes()),
          .messages = steps,
          .bytes = steps * step.bytes};
}

Task allreduce(Group group, const Arguments& arguments) {
  const Blocks blocks = even_blocks(arguments.element_count, group.size(), arguments.element_bytes);
  const auto block = [&](int index) { return blocks.of(arguments.out, index); };
  const auto input = [&](int index) { return arguments.in + blocks.first_bytes(index); };
  if (group.size() == 1) group.copy(arguments.out, arguments.in, arguments.bytes());
  Round<1> round{group};
  // The sum of block b starts at rank b + 1 and is complete at rank b.
  for (int step = 1; step < group.size(); ++step) {
    const auto sent = block(group.minus(step));
    const std::byte* const source = step == 1 ? input(group.minus(step)) : sent.data();
    round.send(group.next(), {source, sent.size()});
    const int arriving = group.minus(step + 1);
    round.receive_reduce(group.previous(), block(arriving), input(arriving), arguments.reducer);
    co_await round;
  }
  for (int step = 0; step < group.size() - 1; ++step) {
    round.send(group.next(), block(group.minus(step)));
    round.receive(group.previous(), block(group.minus(step + 1)));
    co_await round;
  }
}

Cost allreduce_cost(const CallShape& shape, const CostModel& shared) {
  const CostModel model = of_neighbours(shape, shared);
  const double block = shape.block_bytes();
  const double steps = shape.ranks() - 1;
  return {.time_s = steps * (model.latency_s + model.combined_s(block) + model.round_s(1, block)),
          .messages = 2 * steps,
          .bytes = 2 * steps * block};
}

}  // namespace

extern constexpr Algorithm allgather_ring{Collective::allgather, "ring", always, allgather_cost,
                                          allgather};
extern constexpr Algorithm allreduce_ring{Collective::allreduce, "ring", any_order, allreduce_cost,
                                          allreduce};

}  // namespace qpmesh::collectives
