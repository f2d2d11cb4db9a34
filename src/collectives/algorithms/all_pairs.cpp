// SPDX-License-Identifier: MIT
// All pairs: everybody sends everybody a block, beginning with the next rank, so that no rank is
// everybody's target at once; a window of w messages is in flight. Blocks of any lengths. A
// reduce_scatter reduces all that came in one pass, in rank order: ordered reductions included.
// Wins for small blocks on few ranks: one round, so one latency, and one turn on the core for each
// rank when ranks share cores. Alltoall: for all but tiny blocks.
// Cost (N-1)/w (alpha + (w-1) max(o, S/N beta) + S/N beta), and (N-1)/N S gamma to reduce.
// Sources: the all-pairs algorithms of MSCCL++; the scattered algorithm of MPICH.
#include "collectives/algorithm.hpp"

namespace qpmesh::collectives {
namespace {

// Allgather, or alltoall, where each rank is sent a block of its own.
template <Collective collective>
Task send_blocks(Group group, const Arguments& arguments) {
  constexpr bool is_alltoall = collective == Collective::alltoall;
  const Blocks& blocks = arguments.out_blocks;
  const auto block_for = [&](int rank) {
    return is_alltoall ? arguments.in_blocks.of(arguments.in, rank)
                       : std::span{arguments.in, arguments.bytes()};
  };
  const auto own = block_for(group.rank());
  group.copy(arguments.out + blocks.first_bytes(group.rank()), own.data(), own.size());
  Round<messages_in_flight_max> round{group};
  for (int distance = 1; distance < group.size(); ++distance) {
    const int from = group.minus(distance);
    round.send(group.plus(distance), block_for(group.plus(distance)));
    round.receive(from, blocks.of(arguments.out, from));
    if (round.full()) co_await round;
  }
  co_await round;
}

Cost send_blocks_cost(const CallShape& shape, const CostModel& model) {
  Cost cost = all_pairs_cost(shape.size, shape.block_bytes(), model);
  cost.time_s += model.copy_s(shape.block_bytes());
  return cost;
}

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

Task reduce_scatter(Group group, const Arguments& arguments) {
  const Blocks& blocks = arguments.in_blocks;
  const int size = group.size();
  const std::size_t bytes = arguments.bytes();
  const std::byte* own = arguments.in + blocks.first_bytes(group.rank());
  if (size == 1) {
    group.copy(arguments.out, own, bytes);
    co_return;
  }
  Scratch memory{group, bytes * static_cast<std::size_t>(size)};
  const auto arrived = [&](int rank) {
    return memory.data() + bytes * static_cast<std::size_t>(rank);
  };
  Round<messages_in_flight_max> round{group};
  for (int distance = 1; distance < size; ++distance) {
    const int to = group.plus(distance);
    const int from = group.minus(distance);
    round.send(to, blocks.of(arguments.in, to));
    round.receive(from, {arrived(from), bytes});
    if (round.full()) co_await round;
  }
  co_await round;
  // Of more operands than one pass takes, ours is needed after out was written.
  if (static_cast<std::size_t>(size) > operands_max && own == arguments.out) {
    group.copy(arrived(group.rank()), own, bytes);
    own = arrived(group.rank());
  }
  reduce_arrived(group, arguments, own, memory.data());
}

Cost reduce_scatter_cost(const CallShape& shape, const CostModel& model) {
  Cost cost = all_pairs_cost(shape.size, shape.block_bytes(), model);
  cost.time_s += shape.others_bytes() * model.reduced_byte_s;
  return cost;
}

}  // namespace

extern constexpr Algorithm allgather_all_pairs{Collective::allgather, "all_pairs", always,
                                               send_blocks_cost,
                                               send_blocks<Collective::allgather>};
extern constexpr Algorithm alltoall_all_pairs{Collective::alltoall, "all_pairs", always,
                                              send_blocks_cost, send_blocks<Collective::alltoall>};
extern constexpr Algorithm reduce_scatter_all_pairs{
    Collective::reduce_scatter, "all_pairs",    always,
    reduce_scatter_cost,        reduce_scatter, Bits::of_rank_order};

}  // namespace qpmesh::collectives
