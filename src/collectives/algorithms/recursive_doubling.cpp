// SPDX-License-Identifier: MIT
// Recursive doubling: recursive multiplying with radix 2. In each round pairs of ranks exchange
// what they have, and each reduces the two; operands stay in rank order: the same bits on every
// rank, ordered reductions included.
// Wins where a further message in a round costs as much as a round, as over tcp, where processors
// carry it, and between small and long vectors elsewhere: log2 N of them go, and not N - 1.
// Cost log2 N (alpha + S (beta + gamma)); two latencies more where N is no power of two.
// Source: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication
// operations in MPICH", 2005.
#include "collectives/algorithm.hpp"
#include "collectives/algorithms/phases.hpp"

namespace qpmesh::collectives {
namespace {

RecursiveMultiplying pattern_of(int size) { return {size, 2}; }

Task run(Group group, const Arguments& arguments) {
  return recursive_multiplying(group, arguments, pattern_of(group.size()));
}

Cost cost(const CallShape& shape, const CostModel& model) {
  return recursive_multiplying_cost(shape, model, pattern_of(shape.size));
}

// With two ranks it is what recursive multiplying does, and with three that does less.
bool several_pairs(const CallShape& shape) { return shape.size > 3; }

}  // namespace

extern constexpr Algorithm allreduce_recursive_doubling{Collective::allreduce, "recursive_doubling",
                                                        several_pairs, cost, run};

}  // namespace qpmesh::collectives
