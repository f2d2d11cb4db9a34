// SPDX-License-Identifier: MIT
// Bruck's algorithm: a block that must go d ranks on travels by the powers of two in d, packed with
// all others that take the same step. Blocks of one length.
// Wins for tiny blocks on many ranks: ceil(log2 N) messages instead of N-1, for about log2(N)/2
// times the bytes.
// Cost ceil(log2 N) (alpha + S/2 (beta + 2 copies)) + 2 S copies.
// Source: J. Bruck, C.-T. Ho, S. Kipnis, E. Upfal, D. Weathersby, "Efficient algorithms for
// all-to-all communications in multiport message-passing systems", 1997.
#include "collectives/algorithm.hpp"

namespace qpmesh::collectives {
namespace {

// Blocks 0 … size-1 whose number has the bit.
int blocks_with(int bit, int size) noexcept {
  return size / (2 * bit) * bit + std::max(0, size % (2 * bit) - bit);
}

Task run(Group group, const Arguments& arguments) {
  const int size = group.size();
  const std::size_t block_bytes = arguments.in_blocks.length_bytes(0);
  const auto offset = [=](int block) { return static_cast<std::size_t>(block) * block_bytes; };
  const std::size_t half_bytes = offset((size + 1) / 2);
  Scratch memory{group, offset(size) + 2 * half_bytes};
  std::byte* const travelling = memory.data();  // block d has d ranks to go, or came from d back
  std::byte* const packed = travelling + offset(size);
  std::byte* const arrived = packed + half_bytes;
  for (int distance = 0; distance < size; ++distance)
    group.copy(travelling + offset(distance), arguments.in + offset(group.plus(distance)),
               block_bytes);

  Round<1> round{group};
  for (int bit = 1; bit < size; bit *= 2) {
    int count = 0;
    for (int block = bit; block < size; ++block) {
      if ((block & bit) != 0)
        group.copy(packed + offset(count++), travelling + offset(block), block_bytes);
    }
    round.send(group.plus(bit), {packed, offset(count)});
    round.receive(group.minus(bit), {arrived, offset(count)});
    co_await round;
    count = 0;
    for (int block = bit; block < size; ++block) {
      if ((block & bit) != 0)
        group.copy(travelling + offset(block), arrived + offset(count++), block_bytes);
    }
  }
  for (int distance = 0; distance < size; ++distance)
    group.copy(arguments.out + offset(group.minus(distance)), travelling + offset(distance),
               block_bytes);
}

Cost cost(const CallShape& shape, const CostModel& model) {
  Cost cost;
  for (int bit = 1; bit < shape.size; bit *= 2) {
    const double bytes = blocks_with(bit, shape.size) * shape.block_bytes();
    cost.add_round(model, 1, bytes);
    cost.time_s += 2 * bytes * model.copied_byte_s;
  }
  cost.time_s += 2 * shape.vector_bytes() * model.copied_byte_s;
  return cost;
}

}  // namespace

extern constexpr Algorithm alltoall_bruck{Collective::alltoall, "bruck", equal_blocks, cost, run};

}  // namespace qpmesh::collectives
