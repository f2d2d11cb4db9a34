// SPDX-License-Identifier: MIT
// K-nomial tree: a rank waits for the sums of up to k-1 ranks at a time, which speak for the ranges
// of ranks behind its own, reduces them in one pass, in rank order, and hands the sum up. Ordered
// reductions meet at rank 0, which sends the result to another root; others meet at the root. Wins
// for small vectors.
// Cost ceil(log_k N) (alpha + (k-2) max(o, S beta) + S beta + (k-1) S gamma); a message more for an
// ordered one to another root than 0.
// Source: R. Thakur, R. Rabenseifner, W. Gropp, 2005, with radix k.
#include <optional>

#include "collectives/algorithm.hpp"
#include "collectives/patterns/binomial.hpp"

namespace qpmesh::collectives {
namespace {

constexpr int radix = 4;

// Until the sum of so many ranks is there. The last child may speak for fewer ranks than the
// others, and be ready before them.
double knomial_s(std::int64_t size, double bytes, const CostModel& model) {
  double time_s = 0;
  for (std::int64_t distance = 1; distance < size; distance *= radix) {
    const std::int64_t children = std::min<std::int64_t>(radix - 1, (size - 1) / distance);
    const std::int64_t of_last = std::min(distance, size - children * distance);
    const auto full = static_cast<int>(of_last == distance ? children : children - 1);
    double enters_s = time_s;  // the last message of this round
    if (of_last < distance) {
      enters_s =
          std::max(time_s + model.gap_s(bytes), knomial_s(of_last, bytes, model) + model.latency_s);
      if (full > 0) enters_s += model.port_s(bytes);
    }
    if (full > 0)
      enters_s = std::max(enters_s, time_s + model.latency_s) + (full - 1) * model.port_s(bytes);
    time_s = enters_s + bytes * model.byte_s +
             static_cast<double>(children) * bytes * model.reduced_byte_s;
  }
  return time_s;
}

Task run(Group group, const Arguments& arguments) {
  const int size = group.size();
  const int rank = group.rank();
  const std::size_t bytes = arguments.bytes();
  const int root = arguments.root;
  const int top = arguments.reducer.commutative ? root : 0;
  const int me = relative_rank(rank, top, size);
  const bool is_leaf = me % radix != 0 || me + 1 == size;
  std::optional<Scratch> memory;  // the sums that arrive, and our own where it is not the result
  if (!is_leaf) memory.emplace(group, bytes * (radix - 1 + (rank == root ? 0 : 1)));
  std::byte* const own_sum =
      rank == root || is_leaf ? arguments.out : memory->data() + bytes * (radix - 1);

  const std::byte* sum = arguments.in;
  Round<radix - 1> round{group};
  for (std::int64_t distance = 1; distance < size; distance *= radix) {
    const auto digit = static_cast<int>(me / distance % radix);
    if (digit != 0) {
      round.send(absolute_rank(static_cast<int>(me - digit * distance), top, size), {sum, bytes});
      co_await round;
      break;
    }
    std::array<const std::byte*, radix> operands{sum};
    std::size_t count = 1;
    for (; count < radix; ++count) {
      const std::int64_t child = me + static_cast<std::int64_t>(count) * distance;
      if (child >= size) break;
      std::byte* const arrived = memory->data() + bytes * (count - 1);
      round.receive(absolute_rank(static_cast<int>(child), top, size), {arrived, bytes});
      operands[count] = arrived;
    }
    if (count == 1) continue;  // the last rank: nobody is behind it
    co_await round;
    group.reduce(arguments.reducer, own_sum, {operands.data(), count}, bytes);
    sum = own_sum;
  }

  if (top != root && rank == top) round.send(root, {sum, bytes});
  if (top != root && rank == root) round.receive(top, {arguments.out, bytes});
  co_await round;
  if (top == root && rank == root) group.copy(arguments.out, sum, bytes);  // alone
}

Cost cost(const CallShape& shape, const CostModel& model) {
  const double messages = shape.size > 1 ? 1 : 0;
  return {.time_s = knomial_s(shape.size, shape.vector_bytes(), model.one_way().alone()),
          .messages = messages,
          .bytes = messages * shape.vector_bytes()};
}

}  // namespace

// Not on a node: the root waits for whole vectors there, which one_pass and direct reduce piece by
// piece while others come. One of these was as fast or up to three times as fast, with two ranks up
// to 16 MiB, with four on two cores up to 4 MiB.
extern constexpr Algorithm reduce_knomial{Collective::reduce, "knomial",      always, cost, run,
                                          Bits::its_own,      never_on_a_node};

}  // namespace qpmesh::collectives
