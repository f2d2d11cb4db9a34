// SPDX-License-Identifier: MIT
// Distance doubling: every rank keeps the sum of a range of ranks that ends with itself; in each
// round it adds the range before, and the range doubles. In rank order: ordered reductions
// included. The exclusive scan first passes every vector to the next rank.
// Cost ceil(log2 N) (alpha + S (beta + gamma)); exclusive: alpha + S beta more.
// Source: W. D. Hillis, G. L. Steele, "Data parallel algorithms", 1986.
#include <bit>

#include "collectives/algorithm.hpp"
#include "collectives/patterns/binomial.hpp"

namespace qpmesh::collectives {
namespace {

// Over the ranks from `first` on; in and out are the same memory or none in common.
Task prefix(Group group, int first, const std::byte* in, std::byte* out, std::size_t bytes,
            Reducer reducer) {
  const int position = group.rank() - first;
  const int count = group.size() - first;
  if (position < 0) co_return;
  // What is sent must stand still while the next sum is made: sums take turns in two memories, the
  // last one in out.
  int turns = static_cast<int>(std::bit_width(static_cast<unsigned>(position)));
  Scratch other{group, bytes};
  const std::byte* sum = in;
  if (sum == out && turns % 2 == 1) {
    group.copy(other.data(), in, bytes);
    sum = other.data();
  }
  Round<1> round{group};
  for (int distance = 1; distance < count; distance *= 2) {
    if (position + distance < count) round.send(first + position + distance, {sum, bytes});
    std::byte* const next = turns % 2 == 1 ? out : other.data();
    if (position >= distance)
      round.receive_reduce(first + position - distance, {next, bytes}, sum, reducer,
                           Arriving::left);
    co_await round;
    if (position < distance) continue;
    sum = next;
    --turns;
  }
  group.copy(out, sum, bytes);  // nothing came
}

// Until the rank at a position has its sum. What comes last is of ranks that may have been ready
// long before.
double prefix_s(int position, double bytes, const CostModel& model) {
  if (position == 0) return 0;
  const auto rounds = std::bit_width(static_cast<unsigned>(position));
  const double round_s = model.latency_s + model.combined_s(bytes);
  const int source = position - (1 << (rounds - 1));
  // In which the source only sends.
  const auto idle_rounds = rounds - 1 - std::bit_width(static_cast<unsigned>(source));
  return std::max((rounds - 1) * round_s + model.gap_s(bytes) + model.combined_s(bytes),
                  prefix_s(source, bytes, model) + idle_rounds * model.port_s(bytes) + round_s);
}

Task run_scan(Group group, const Arguments& arguments) {
  co_await prefix(group, 0, arguments.in, arguments.out, arguments.bytes(), arguments.reducer);
}

Task run_exscan(Group group, const Arguments& arguments) {
  const std::size_t bytes = arguments.bytes();
  const int rank = group.rank();
  Scratch shifted{group, bytes};  // of the rank before
  Round<1> round{group};
  if (rank + 1 < group.size()) round.send(rank + 1, {arguments.in, bytes});
  if (rank > 0) round.receive(rank - 1, {shifted.data(), bytes});
  co_await round;
  co_await prefix(group, 1, shifted.data(), arguments.out, bytes, arguments.reducer);
}

Cost scan_cost(const CallShape& shape, const CostModel& model) {
  const double bytes = shape.vector_bytes();
  const double messages = ceil_log2(shape.size);
  const double first_s = messages * model.port_s(bytes) +
                         model.copy_s(bytes);  // of the first rank, which gets nothing
  return {.time_s = std::max(first_s, prefix_s(shape.size - 1, bytes, model)),
          .messages = messages,
          .bytes = messages * bytes};
}

Cost exscan_cost(const CallShape& shape, const CostModel& model) {
  CallShape others = shape;
  others.size = std::max(1, shape.size - 1);
  Cost cost = scan_cost(others, model);
  return shape.size > 1 ? cost.add_round(model, 1, shape.vector_bytes()) : cost;
}

}  // namespace

extern constexpr Algorithm scan_doubling{Collective::scan, "doubling", always, scan_cost, run_scan};
extern constexpr Algorithm exscan_doubling{Collective::exscan, "doubling", always, exscan_cost,
                                           run_exscan};

}  // namespace qpmesh::collectives
