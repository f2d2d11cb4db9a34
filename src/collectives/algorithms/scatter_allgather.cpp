// SPDX-License-Identifier: MIT
// Binomial scatter of the vector's blocks, then circulant allgather. Wins for long vectors on more
// than a few ranks: every rank's link carries the vector about twice, whatever N.
// Cost 2 ceil(log2 N) alpha + 2 (N-1)/N S beta, and overheads where blocks wrap at N.
// Source: M. Barnett, L. Shuler, R. van de Geijn, S. Gupta, D. Payne, J. Watts, "Interprocessor
// collective communication library (InterCom)", 1994, with the circulant pattern.
#include "collectives/algorithm.hpp"
#include "collectives/algorithms/phases.hpp"

namespace qpmesh::collectives {
namespace {

Task run(Group group, const Arguments& arguments) {
  const Blocks blocks = even_blocks(arguments.element_count, group.size(), arguments.element_bytes);
  co_await binomial_scatter(group, arguments.root, blocks,
                            {.read = arguments.out, .write = arguments.out});
  co_await circulant_allgather(group, arguments.out, blocks);
}

Cost cost(const CallShape& shape, const CostModel& model) {
  // The ranks that wrap are not those that come last.
  Cost cost = circulant_allgather_cost(shape, model, false);
  return cost += binomial_scatter_cost(shape, model);
}

}  // namespace

extern constexpr Algorithm broadcast_scatter_allgather{Collective::broadcast, "scatter_allgather",
                                                       always, cost, run};

}  // namespace qpmesh::collectives
