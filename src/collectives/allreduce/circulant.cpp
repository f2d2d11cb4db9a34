// Circulant reduce-scatter, then circulant allgather. Wins for long vectors and any number of ranks: no
// power-of-two case. Commutative reductions only.
// Cost 2 ceil(log2 N) alpha + 2 (N-1)/N S beta + (N-1)/N S gamma, and overheads where runs wrap at block N.
// Source: see patterns/circulant.hpp.
#include "collectives/patterns/circulant.hpp"
#include "collectives/allgather/allgather.hpp"
#include "collectives/allreduce/allreduce.hpp"
#include "collectives/reduce_scatter/reduce_scatter.hpp"

namespace qpmesh::collectives {

Task allreduce_circulant(Group group, const Arguments& arguments) {
  if (group.size() == 1) {
    group.copy(arguments.out, arguments.in, arguments.bytes());
    co_return;
  }
  const Blocks blocks = even_blocks(arguments.element_count, group.size(), arguments.element_bytes);
  co_await circulant_reduce_scatter(group, arguments.in, arguments.out, blocks, arguments.reducer);
  co_await circulant_allgather(group, arguments.out, blocks);
}

Cost allreduce_circulant_cost(const Shape& shape, const Model& model) {
  Cost cost = circulant_reduce_scatter_cost(shape, model, true);
  if (shape.size > 3)
    --cost.messages;  // the rank whose runs wrap most in the second half has none in the first
  return cost += circulant_allgather_cost(shape, model, true);
}

}  // namespace qpmesh::collectives
