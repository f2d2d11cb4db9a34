// All pairs: everybody sends every rank its block, and reduces all that came in one pass, in rank
// order: ordered reductions included. Wins for small vectors on few ranks. Cost alpha + (N-2)
// max(o, S/N beta) + S/N beta + (N-1)/N S gamma. Source: the all-pairs algorithms of MSCCL++.
#include <array>

#include "collectives/algorithm.hpp"

namespace qpmesh::collectives {
namespace {

constexpr std::size_t operands_max = 64;  // of one pass

// out = all blocks, in rank order. arrived: those of the other ranks, each at its rank.
void reduce_arrived(const Group& group, const Arguments& arguments, const std::byte* own,
                    const std::byte* arrived) {
  const auto rank = static_cast<std::size_t>(group.rank());
  const auto size = static_cast<std::size_t>(group.size());
  const std::size_t bytes = arguments.bytes();
  std::array<const std::byte*, operands_max> operands;
  std::size_t count = 0;
  for (std::size_t from = 0; from < size; ++from) {
    operands[count++] = from == rank ? own : arrived + bytes * from;
    if (count < operands_max && from + 1 < size) continue;
    group.reduce(arguments.reducer, arguments.out, {operands.data(), count}, bytes);
    operands[0] = arguments.out;
    count = 1;
  }
}

Task run(Group group, const Arguments& arguments) {
  const Blocks& blocks = arguments.in_blocks;
  const int size = group.size();
  const std::size_t bytes = arguments.bytes();
  const std::byte* own = arguments.in + blocks.first_bytes(group.rank());
  if (size == 1) {
    group.copy(arguments.out, own, bytes);
    co_return;
  }
  Scratch arrived{group, bytes * static_cast<std::size_t>(size)};
  Round<messages_in_flight_max> round{group};
  for (int distance = 1; distance < size; ++distance) {
    const int to = group.plus(distance);
    const int from = group.minus(distance);
    round.send(to, {arguments.in + blocks.first_bytes(to), blocks.length_bytes(to)});
    round.receive(from, {arrived.data() + bytes * static_cast<std::size_t>(from), bytes});
    if (round.full()) co_await round;
  }
  co_await round;
  if (static_cast<std::size_t>(size) > operands_max &&
      own == arguments.out) {  // it is needed after out was written
    std::byte* const place = arrived.data() + bytes * static_cast<std::size_t>(group.rank());
    group.copy(place, own, bytes);
    own = place;
  }
  reduce_arrived(group, arguments, own, arrived.data());
}

Cost cost(const CallShape& shape, const CostModel& model) {
  Cost cost = all_pairs_cost(shape.size, shape.block_bytes(), model);
  cost.time_s += (shape.ranks() - 1) * shape.block_bytes() * model.reduced_byte_s;
  return cost;
}

}  // namespace

extern constexpr Algorithm reduce_scatter_all_pairs{Collective::reduce_scatter, "all_pairs", always,
                                                    cost, run};

}  // namespace qpmesh::collectives
