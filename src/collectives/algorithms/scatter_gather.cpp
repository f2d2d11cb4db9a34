// SPDX-License-Identifier: MIT
// Circulant reduce-scatter, then binomial gather of the blocks at the root. Wins for long vectors.
// Commutative reductions only.
// Cost 2 ceil(log2 N) alpha + 2 (N-1)/N S beta + (N-1)/N S gamma, and overheads where runs wrap at
// block N.
// Source: R. Rabenseifner, "Optimization of collective reduction operations", 2004, with the
// circulant pattern.
#include <optional>

#include "collectives/algorithm.hpp"
#include "collectives/algorithms/phases.hpp"

namespace qpmesh::collectives {
namespace {

Task run(Group group, const Arguments& arguments) {
  const bool is_root = group.rank() == arguments.root;
  const Blocks blocks = even_blocks(arguments.element_count, group.size(), arguments.element_bytes);
  std::optional<Scratch> memory;
  if (!is_root) memory.emplace(group, arguments.bytes());
  std::byte* const sums = is_root ? arguments.out : memory->data();
  co_await circulant_reduce_scatter(group, arguments.in, sums, blocks, arguments.reducer);
  co_await binomial_gather(group, arguments.root, blocks, {.read = sums, .write = sums});
}

Cost cost(const CallShape& shape, const CostModel& model) {
  Cost cost = circulant_reduce_scatter_cost(shape, model, false);  // what wraps last is at the root
  return cost += binomial_gather_cost(shape, model);
}

}  // namespace

extern constexpr Algorithm reduce_scatter_gather{Collective::reduce, "scatter_gather", any_order,
                                                 cost, run};

}  // namespace qpmesh::collectives
