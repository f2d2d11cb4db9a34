// One shot: every rank that has something to give publishes it beside its flag, and every rank that wants it reads it there. Wins for
// small vectors on one node: one cache line from core to core, and one turn on the core for each rank when ranks share cores.
// Reductions are in rank order, the same everywhere: the same bits on every rank, ordered ones included.
// Cost one line, and N S read.
// Source: NCCL's AGxLL_R kernels; MSCCL++'s all-pairs packets.
#include "collectives/node/node.hpp"
#include "collectives/node/operation.hpp"
#include "collectives/node/work.hpp"

namespace qpmesh::collectives {
namespace {

// target = the same part of everybody's vector, reduced.
void reduce_parts(const Group& group, const NodeOperation& node, const Arguments& arguments,
                  std::size_t place = 0) {
  Operands operands;
  const auto parts = operands_in_rank_order(operands, group, arguments.in + place,
                                            [&](int rank) { return node.slot_data(rank) + place; });
  group.reduce(arguments.reducer, arguments.out, parts, arguments.bytes());
}

}  // namespace

Task barrier_one_shot(Group group, const Arguments& /*arguments*/) {
  NodeOperation node{group};
  co_await node.own_slot();
  node.publish({});
  co_await node.all(1);
}

Task broadcast_one_shot(Group group, const Arguments& arguments) {
  NodeOperation node{group};
  const std::size_t bytes = arguments.bytes();
  if (group.rank() == arguments.root) {
    co_await node.own_slot();
    node.publish({arguments.out, bytes});
    co_return;
  }
  co_await node.member(arguments.root, 1);
  group.copy(arguments.out, node.slot_data(arguments.root), bytes);
}

Task allreduce_one_shot(Group group, const Arguments& arguments) {
  NodeOperation node{group};
  co_await node.own_slot();
  node.publish({arguments.in, arguments.bytes()});
  co_await node.all(1);
  reduce_parts(group, node, arguments);
}

Task reduce_one_shot(Group group, const Arguments& arguments) {
  NodeOperation node{group};
  co_await node.own_slot();
  node.publish({arguments.in, arguments.bytes()});
  if (group.rank() != arguments.root) co_return;
  co_await node.all(1);
  reduce_parts(group, node, arguments);
}

Task reduce_scatter_one_shot(Group group, const Arguments& arguments) {
  NodeOperation node{group};
  const Blocks& blocks = arguments.in_blocks;
  co_await node.own_slot();
  node.publish({arguments.in, blocks.bytes()});
  co_await node.all(1);
  reduce_parts(group, node, arguments, blocks.first_bytes(group.rank()));
}

Task allgather_one_shot(Group group, const Arguments& arguments) {
  NodeOperation node{group};
  const Blocks& blocks = arguments.out_blocks;
  co_await node.own_slot();
  node.publish({arguments.in, arguments.bytes()});
  group.copy(arguments.out + blocks.first_bytes(group.rank()), arguments.in, arguments.bytes());
  for (int distance = 1; distance < group.size(); ++distance) {
    const int from = group.plus(distance);
    co_await node.member(from, 1);
    const std::size_t bytes = blocks.length_bytes(from);
    group.copy(arguments.out + blocks.first_bytes(from), node.slot_data(from), bytes);
  }
}

Task alltoall_one_shot(Group group, const Arguments& arguments) {
  NodeOperation node{group};
  const Blocks& blocks = arguments.in_blocks;
  const std::size_t bytes = blocks.length_bytes(0);
  co_await node.own_slot();
  node.publish({arguments.in, blocks.bytes()});
  const std::size_t place = blocks.first_bytes(group.rank());
  group.copy(arguments.out + place, arguments.in + place, bytes);
  for (int distance = 1; distance < group.size(); ++distance) {
    const int from = group.plus(distance);
    co_await node.member(from, 1);
    group.copy(arguments.out + blocks.first_bytes(from), node.slot_data(from) + place, bytes);
  }
}

bool fits_one_shot(const Shape& shape) {
  return shape.one_node && !shape.uneven && shape.size > 1 && shape.size <= node_ranks_max &&
         shape.bytes <= node_slot_bytes;
}

Cost barrier_one_shot_cost(const Shape& shape, const Model& model) {
  return CoreWork{shape, model}.steps(1).cost();
}

Cost broadcast_one_shot_cost(const Shape& shape, const Model& model) {
  const double bytes = shape.vector_bytes();
  return CoreWork{shape, model}.steps(1).give_alone(bytes).take(bytes).cost();
}

Cost allgather_one_shot_cost(const Shape& shape, const Model& model) {
  const double block = shape.block_bytes();
  return CoreWork{shape, model}.steps(1).keep(block).give(block).take(shape.vector_bytes() - block).cost();
}

Cost alltoall_one_shot_cost(const Shape& shape, const Model& model) {
  const double block = shape.block_bytes();
  const double others = shape.vector_bytes() - block;
  return CoreWork{shape, model}.steps(1).keep(2 * block).give_parts(others).take_parts(others).cost();
}

Cost allreduce_one_shot_cost(const Shape& shape, const Model& model) {
  const double bytes = shape.vector_bytes();
  const double others = (shape.ranks() - 1) * bytes;
  return CoreWork{shape, model}.steps(1).give(bytes).take(others).reduce(others).cost();
}

Cost reduce_one_shot_cost(const Shape& shape, const Model& model) {
  const double bytes = shape.vector_bytes();
  const double others = (shape.ranks() - 1) * bytes;
  return CoreWork{shape, model}.steps(1).give(bytes).take_alone(others).reduce_alone(others).cost();
}

Cost reduce_scatter_one_shot_cost(const Shape& shape, const Model& model) {
  const double others = shape.vector_bytes() - shape.block_bytes();
  return CoreWork{shape, model}
      .steps(1)
      .keep(shape.block_bytes())
      .give_parts(others)
      .take_parts(others)
      .reduce(others)
      .cost();
}

}  // namespace qpmesh::collectives
