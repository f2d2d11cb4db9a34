// One-shot exchange: everybody sends its vector to everybody and reduces all of them, in rank order.
// Wins for small vectors on few ranks: one round, so one latency, and one turn on the core for each
// rank when ranks share cores. The reduction order is the rank order, the same everywhere: the same
// bits on every rank, ordered reductions included.
// Cost alpha + (N-2) o + (N-1) S (beta + gamma).
// Source: the all-pairs algorithms of MSCCL++ and NCCL's symmetric kernels; R. Thakur, R.
// Rabenseifner, W. Gropp, 2005, for the model.
#include <cstring>

#include "collectives/allreduce/allreduce.hpp"

namespace qpmesh::collectives {

Task allreduce_exchange(Group group, AllreduceArguments arguments) {
  const std::byte* const in = arguments.in;
  std::byte* const out = arguments.out;
  const std::size_t element_count = arguments.element_count;
  const std::size_t bytes = element_count * arguments.element_bytes;
  const int size = group.size();
  const int rank = group.rank();
  assert(size <= exchange_ranks_max);
  progress::Scratch arrived{group.pool(), bytes * static_cast<std::size_t>(size)};
  const auto vector_of = [&](int index) { return arrived.data() + bytes * static_cast<std::size_t>(index); };

  Round<exchange_ranks_max - 1> round{group};
  for (int distance = 1; distance < size; ++distance) {
    round.send(group.plus(distance), {in, bytes});
    round.receive(group.minus(distance), {vector_of(group.minus(distance)), bytes});
  }
  co_await round;

  if (size == 1) {
    if (in != out) std::memcpy(out, in, bytes);
    co_return;
  }
  // out may be in, which is one of the operands: it is read before out is first written, because rank `rank`
  // comes in the first step or its vector is saved.
  const std::byte* own = in;
  if (in == out && rank > 1 && bytes > 0) {
    std::memcpy(vector_of(rank), in, bytes);
    own = vector_of(rank);
  }
  const auto operand = [&](int index) { return index == rank ? own : vector_of(index); };
  arguments.kernel(out, operand(0), operand(1), element_count);
  for (int index = 2; index < size; ++index) arguments.kernel(out, out, operand(index), element_count);
}

}  // namespace qpmesh::collectives
