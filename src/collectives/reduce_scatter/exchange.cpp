// One-shot exchange: everybody sends every rank its block, and reduces all that came in one pass, in rank order:
// ordered reductions included. Wins for small vectors on few ranks.
// Cost alpha + (N-2) max(o, S/N beta) + S/N beta + (N-1)/N S gamma.
// Source: the all-pairs algorithms of MSCCL++.
#include <vector>

#include "collectives/reduce_scatter/reduce_scatter.hpp"

namespace qpmesh::collectives {

Task reduce_scatter_exchange(Group group, const Arguments& arguments) {
  const Blocks& blocks = arguments.in_blocks;
  const int size = group.size();
  const std::size_t bytes = arguments.bytes();
  const std::byte* const own = arguments.in + blocks.first_bytes(group.rank());
  if (size == 1) {
    group.copy(arguments.out, own, bytes);
    co_return;
  }
  Scratch arrived{group, bytes * static_cast<std::size_t>(size)};
  std::vector<const std::byte*> operands(static_cast<std::size_t>(size), own);
  Round<exchange_window> round{group};
  for (int distance = 1; distance < size; ++distance) {
    const int to = group.plus(distance);
    const auto from = static_cast<std::size_t>(group.minus(distance));
    std::byte* const place = arrived.data() + bytes * from;
    round.send(to, {arguments.in + blocks.first_bytes(to), blocks.length_bytes(to)});
    round.receive(group.minus(distance), {place, bytes});
    operands[from] = place;
    if (round.full()) co_await round;
  }
  co_await round;
  group.reduce(arguments.reducer, arguments.out, operands, bytes);
}

Cost reduce_scatter_exchange_cost(const Shape& shape, const Model& model) {
  Cost cost = exchange_cost(shape.size, shape.block_bytes(), model);
  cost.time_s += (shape.ranks() - 1) * shape.block_bytes() * model.reduced_byte_s;
  return cost;
}

}  // namespace qpmesh::collectives
