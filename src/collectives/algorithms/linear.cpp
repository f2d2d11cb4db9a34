// SPDX-License-Identifier: MIT
// Linear: the root sends to, or receives from, every other rank.
// Broadcast: wins for small vectors on few ranks: one latency, and one turn on the core for each
// rank when ranks share cores. Gather and scatter: for long blocks, where the root's link is the
// limit whatever the tree, and on few ranks; blocks of any lengths that only the root knows.
// Cost alpha + (N-2) max(o, b beta) + b beta for b bytes to each: S of a broadcast, otherwise S/N.
// Source: the linear algorithms of Open MPI's basic collectives.
#include "collectives/algorithm.hpp"

namespace qpmesh::collectives {
namespace {

Task broadcast(Group group, const Arguments& arguments) {
  const std::span<std::byte> vector{arguments.out, arguments.bytes()};
  Round<messages_in_flight_max> round{group};
  if (group.rank() != arguments.root) {
    round.receive(arguments.root, vector);
    co_await round;
    co_return;
  }
  for (int to = group.next(); to != group.rank(); to = group.after(to)) {
    round.send(to, vector);
    if (round.full()) co_await round;
  }
  co_await round;
}

Cost broadcast_cost(const CallShape& shape, const CostModel& model) {
  return Cost{}.add_round(model.alone(), shape.size - 1, shape.vector_bytes());
}

Task gather(Group group, const Arguments& arguments) {
  const int root = arguments.root;
  Round<messages_in_flight_max> round{group};
  if (group.rank() != root) {
    round.send(root, {arguments.in, arguments.bytes()});
    co_await round;
    co_return;
  }
  const Blocks& blocks = arguments.out_blocks;
  // Nothing has come yet.
  group.copy(arguments.out + blocks.first_bytes(root), arguments.in, arguments.bytes());
  for (int from = group.next(); from != group.rank(); from = group.after(from)) {
    round.receive(from, blocks.of(arguments.out, from));
    if (round.full()) co_await round;
  }
  co_await round;
}

Cost gather_cost(const CallShape& shape, const CostModel& model) {
  const double messages = shape.size > 1 ? 1 : 0;
  return {
      .time_s =
          Cost{}.add_round(model.one_way().alone(), shape.size - 1, shape.block_bytes()).time_s +
          model.overlapped_copy_s(shape.block_bytes()),
      .messages = messages,
      .bytes = messages * shape.block_bytes()};
}

Task scatter(Group group, const Arguments& arguments) {
  const int root = arguments.root;
  Round<messages_in_flight_max> round{group};
  if (group.rank() != root) {
    round.receive(root, {arguments.out, arguments.bytes()});
    co_await round;
    co_return;
  }
  const Blocks& blocks = arguments.in_blocks;
  for (int to = group.next(); to != group.rank(); to = group.after(to)) {
    round.send(to, blocks.of(arguments.in, to));
    if (round.full()) co_await round;
  }
  co_await round;
  group.copy(arguments.out, arguments.in + blocks.first_bytes(root), arguments.bytes());
}

Cost scatter_cost(const CallShape& shape, const CostModel& model) {
  Cost cost = Cost{}.add_round(model.alone(), shape.size - 1, shape.block_bytes());
  cost.time_s += model.overlapped_copy_s(shape.block_bytes());  // with the last message
  return cost;
}

}  // namespace

extern constexpr Algorithm broadcast_linear{Collective::broadcast, "linear", always, broadcast_cost,
                                            broadcast};
extern constexpr Algorithm gather_linear{Collective::gather, "linear", always, gather_cost, gather};
extern constexpr Algorithm scatter_linear{Collective::scatter, "linear", always, scatter_cost,
                                          scatter};

}  // namespace qpmesh::collectives
