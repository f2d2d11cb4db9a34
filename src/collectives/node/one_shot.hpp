// One shot: every rank that has something to give publishes it beside its flag, and every rank that
// wants it reads it there. Wins for small vectors on one node: one cache line from core to core,
// and one turn on the core for each rank when ranks share cores. Reductions are in rank order, the
// same everywhere: the same bits on every rank, ordered ones included. Cost one line, and N S read.
// Source: NCCL's AGxLL_R kernels; MSCCL++'s all-pairs packets.
#pragma once

#include "collectives/arguments.hpp"
#include "collectives/cost.hpp"
#include "collectives/node/operation.hpp"

namespace qpmesh::collectives {

// The ranks share memory, and the vector fits a slot.
inline bool fits_one_shot(const CallShape& shape) {
  return shape.one_node && !shape.uneven && shape.size > 1 && shape.size <= node_ranks_max &&
         shape.bytes <= node_slot_bytes;
}

// target = the same part of everybody's vector, reduced.
inline void reduce_parts(const Group& group, const NodeOperation& node, const Arguments& arguments,
                         std::size_t place = 0) {
  Operands operands;
  const auto parts = operands_in_rank_order(operands, group, arguments.in + place,
                                            [&](int rank) { return node.slot_data(rank) + place; });
  group.reduce(arguments.reducer, arguments.out, parts, arguments.bytes());
}

}  // namespace qpmesh::collectives
