// Circulant reduce-scatter, then circulant allgather. Wins for long vectors and any number of
// ranks: no power-of-two case. Commutative reductions only. Cost 2 ceil(log2 N) alpha + 2 (N-1)/N S
// beta + (N-1)/N S gamma, and overheads where runs wrap at block N. Source: see
// patterns/circulant.hpp.
#include "collectives/allgather/circulant.hpp"
#include "collectives/algorithm.hpp"
#include "collectives/patterns/circulant.hpp"
#include "collectives/reduce_scatter/circulant.hpp"

namespace qpmesh::collectives {
namespace {

Task run(Group group, const Arguments& arguments) {
  if (group.size() == 1) {
    group.copy(arguments.out, arguments.in, arguments.bytes());
    co_return;
  }
  const Blocks blocks = even_blocks(arguments.element_count, group.size(), arguments.element_bytes);
  co_await circulant_reduce_scatter(group, arguments.in, arguments.out, blocks, arguments.reducer);
  co_await circulant_allgather(group, arguments.out, blocks);
}

Cost cost(const CallShape& shape, const CostModel& model) {
  Cost cost = circulant_reduce_scatter_cost(shape, model, true);
  if (shape.size > 3)
    --cost.messages;  // the rank whose runs wrap most in the second half has none in the first
  return cost += circulant_allgather_cost(shape, model, true);
}

}  // namespace

extern constexpr Algorithm allreduce_circulant{Collective::allreduce, "circulant", any_order, cost,
                                               run};

}  // namespace qpmesh::collectives
