// SPDX-License-Identifier: MIT
// Recursive multiplying with radix k: in each round k ranks send each other their vectors, and
// everyone reduces all of them in one pass. Operands are in rank order, the same everywhere: the
// same bits on every rank, ordered reductions included.
// Wins for small vectors: ceil(log_k N) latencies; up to 16 ranks it is one round, which also means
// one turn on the core for each rank when ranks share cores.
// Cost per round alpha + (k-2) max(o, S beta) + S beta + (k-1) S gamma; two latencies more where N
// is beyond 16 and no power of two.
// Sources: for one round the all-pairs algorithms of MSCCL++ and NCCL's symmetric kernels; for
// radix k J. Bruck, C.-T. Ho, "Efficient global combine operations in multi-port message-passing
// systems", 1993.
#include "collectives/patterns/recursive_multiplying.hpp"

#include "collectives/algorithm.hpp"
#include "collectives/algorithms/phases.hpp"

namespace qpmesh::collectives {
namespace {

// Where bytes cost more than rounds, fewer are sent. From what every rank knows alike.
constexpr std::size_t high_radix_bytes_max = 1024;
RecursiveMultiplying pattern_of(int size, std::size_t bytes) {
  if (size <= RecursiveMultiplying::radix_max) return {size, RecursiveMultiplying::radix_max};
  return {size, bytes <= high_radix_bytes_max ? 8 : 4};
}

Task take_part(Group group, const Arguments& arguments, RecursiveMultiplying pattern,
               const std::byte* sum) {
  constexpr int radix_max = RecursiveMultiplying::radix_max;
  const std::size_t bytes = arguments.bytes();
  const int rank = group.rank();
  if (group.size() == 1) group.copy(arguments.out, arguments.in, bytes);
  Round<radix_max - 1> round{group};
  const int largest_radix = pattern.round_radix(1);
  Scratch arrived{group, bytes * static_cast<std::size_t>(largest_radix - 1)};
  for (int distance = 1; distance < pattern.participants();) {
    const int radix = pattern.round_radix(distance);
    std::array<const std::byte*, radix_max> operands;
    operands[static_cast<std::size_t>(pattern.digit_of(rank, distance, radix))] = sum;
    std::byte* unused = arrived.data();
    pattern.for_each_exchange(rank, distance, radix, [&](auto to, auto from) {
      round.send(to.rank, {sum, bytes});
      round.receive(from.rank, {unused, bytes});
      operands[static_cast<std::size_t>(from.digit)] = unused;
      unused += bytes;
    });
    co_await round;
    group.reduce(arguments.reducer, arguments.out,
                 {operands.data(), static_cast<std::size_t>(radix)}, bytes);
    sum = arguments.out;
    distance *= radix;
  }
}

}  // namespace

Task allreduce_folded(Group group, const Arguments& arguments, RecursiveMultiplying pattern,
                      Participant take_part) {
  const int rank = group.rank();
  const std::span<std::byte> out{arguments.out, arguments.bytes()};
  Round<1> round{group};
  if (pattern.is_folded(rank)) {
    round.send(rank - 1, {arguments.in, out.size()});
    co_await round;
    round.receive(rank - 1, out);
    co_await round;
  } else if (pattern.has_folded(rank)) {
    round.receive_reduce(rank + 1, out, arguments.in, arguments.reducer);
    co_await round;
    co_await take_part(group, arguments, pattern, out.data());
    round.send(rank + 1, out);
    co_await round;
  } else {
    co_await take_part(group, arguments, pattern, arguments.in);
  }
}

Task recursive_multiplying(Group group, const Arguments& arguments, RecursiveMultiplying pattern) {
  return pattern.folded() == 0 ? take_part(group, arguments, pattern, arguments.in)
                               : allreduce_folded(group, arguments, pattern, take_part);
}

Cost recursive_multiplying_cost(const CallShape& shape, const CostModel& model,
                                RecursiveMultiplying pattern) {
  const double bytes = shape.vector_bytes();
  Cost cost;
  double early_s = 0;
  for (int distance = 1; distance < pattern.participants();) {
    const int radix = pattern.round_radix(distance);
    cost.add_round(model, radix - 1, bytes);
    cost.time_s += (radix - 1) * bytes * model.reduced_byte_s;
    if (distance >= pattern.folded()) early_s += model.latency_s;
    distance *= radix;
  }
  add_folding_cost(cost, pattern, bytes, early_s, model);
  return cost;
}

namespace {

Task run(Group group, const Arguments& arguments) {
  return recursive_multiplying(group, arguments, pattern_of(group.size(), arguments.bytes()));
}

Cost cost(const CallShape& shape, const CostModel& model) {
  return recursive_multiplying_cost(shape, model, pattern_of(shape.size, shape.bytes));
}

}  // namespace

extern constexpr Algorithm allreduce_recursive_multiplying{
    Collective::allreduce, "recursive_multiplying", always, cost, run};

}  // namespace qpmesh::collectives
