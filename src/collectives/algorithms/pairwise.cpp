// SPDX-License-Identifier: MIT
// Pairwise: in round d every rank sends rank + d the block that it reduces, and adds the one that
// comes from rank - d to its own. Operands come in the order of the rounds, not of the ranks:
// commutative reductions only. Wins for long vectors where memory is scarce: nothing beside the
// result is written.
// Cost (N-1)(alpha + S/N (beta + gamma)).
// Source: R. Thakur, R. Rabenseifner, W. Gropp, 2005.
#include "collectives/algorithm.hpp"

namespace qpmesh::collectives {
namespace {

Task run(Group group, const Arguments& arguments) {
  const Blocks& blocks = arguments.in_blocks;
  const auto block = [&](int index) { return blocks.of(arguments.in, index); };
  const std::byte* operand = block(group.rank()).data();
  if (group.size() == 1) group.copy(arguments.out, operand, arguments.bytes());
  Round<1> round{group};
  for (int distance = 1; distance < group.size(); ++distance) {
    round.send(group.plus(distance), block(group.plus(distance)));
    round.receive_reduce(group.minus(distance), {arguments.out, arguments.bytes()}, operand,
                         arguments.reducer);
    co_await round;
    operand = arguments.out;
  }
}

Cost cost(const CallShape& shape, const CostModel& model) {
  const double steps = shape.ranks() - 1;
  return {.time_s = steps * (model.latency_s + model.combined_s(shape.block_bytes())),
          .messages = steps,
          .bytes = steps * shape.block_bytes()};
}

}  // namespace

extern constexpr Algorithm reduce_scatter_pairwise{Collective::reduce_scatter, "pairwise",
                                                   any_order, cost, run};

}  // namespace qpmesh::collectives
