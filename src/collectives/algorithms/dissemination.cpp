// SPDX-License-Identifier: MIT
// Dissemination barrier, radix k: in round i every rank tells the ranks at distance j k^i (j = 1 …
// k-1) that all ranks up to k^i - 1 behind it have come, and hears the same from the other side.
// After ceil(log_k N) rounds everybody has heard of everybody.
// Wins for every N; up to radix_max ranks it is one round, which also means one turn on the core
// for each rank when ranks share cores.
// Cost ceil(log_k N) (alpha + (k-2) o).
// Source: D. Hensgen, R. Finkel, U. Manber, "Two algorithms for barrier synchronization", 1988.
#include "collectives/algorithm.hpp"

namespace qpmesh::collectives {
namespace {

constexpr int radix_max = 8;

Task run(Group group, const Arguments& /*arguments*/) {
  Round<radix_max - 1> round{group};
  for (std::int64_t distance = 1; distance < group.size(); distance *= radix_max) {
    for (int j = 1; j < radix_max && j * distance < group.size(); ++j) {
      const int step = static_cast<int>(j * distance);
      round.send(group.plus(step), {});
      round.receive(group.minus(step), {});
    }
    co_await round;
  }
}

Cost cost(const CallShape& shape, const CostModel& model) {
  Cost cost;
  for (std::int64_t distance = 1; distance < shape.size; distance *= radix_max) {
    const std::int64_t peers = std::min<std::int64_t>(radix_max - 1, (shape.size - 1) / distance);
    cost.add_round(model, static_cast<int>(peers), 0);
  }
  return cost;
}

}  // namespace

extern constexpr Algorithm barrier_dissemination{Collective::barrier, "dissemination", always, cost,
                                                 run};

}  // namespace qpmesh::collectives
