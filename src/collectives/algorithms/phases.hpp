// SPDX-License-Identifier: MIT
// Algorithms that are phases of others, too, in circulant.cpp, binomial.cpp and
// recursive_multiplying.cpp.
#pragma once

#include "collectives/algorithm.hpp"
#include "collectives/patterns/recursive_multiplying.hpp"

namespace qpmesh::collectives {

// `wraps`, in the costs: the ranks that wait longest are those whose runs wrap at block N, a
// message more in each round.

// This rank's block is in its place already; blocks without gaps.
Task circulant_allgather(Group group, std::byte* vector, Blocks blocks);
Cost circulant_allgather_cost(const CallShape& shape, const CostModel& model, bool wraps);

// in and sums are whole vectors, the same memory or none in common. Afterwards this rank's block of
// sums is complete and the others hold partial sums or nothing. in is never copied: the first
// reduction of a block takes its operand from there. For reducers that commute; blocks without
// gaps.
Task circulant_reduce_scatter(Group group, const std::byte* in, std::byte* sums, Blocks blocks,
                              Reducer reducer);
Cost circulant_reduce_scatter_cost(const CallShape& shape, const CostModel& model, bool wraps);

// Where a rank of a binomial tree keeps the blocks of its subtree. in_vector: each where it is in
// the vector; otherwise they lie one behind the other in the order of the tree, this rank's first,
// and all have one length. Only what is received needs `write`. Trivially destructible: a parameter
// of tasks.
struct SubtreeBlocks {
  const std::byte* read = nullptr;
  std::byte* write = nullptr;
  bool in_vector = true;
};

// Every rank has its own block; afterwards the root has all of them.
Task binomial_gather(Group group, int root, Blocks blocks, SubtreeBlocks mine);
Cost binomial_gather_cost(const CallShape& shape, const CostModel& model);

// The root has all blocks; afterwards every rank has those of its subtree.
Task binomial_scatter(Group group, int root, Blocks blocks, SubtreeBlocks mine);
Cost binomial_scatter_cost(const CallShape& shape, const CostModel& model);

// An allreduce by those that take part; what they reduce first are `sums`, arguments.in or
// arguments.out, and the result is in arguments.out.
using Participant = Task (*)(Group group, const Arguments& arguments, RecursiveMultiplying pattern,
                             const std::byte* sums);
// The same with the ranks that are folded, before and after it.
Task allreduce_folded(Group group, const Arguments& arguments, RecursiveMultiplying pattern,
                      Participant take_part);

// Whole vectors go in every round, and are reduced when all of the round are there.
Task recursive_multiplying(Group group, const Arguments& arguments, RecursiveMultiplying pattern);
Cost recursive_multiplying_cost(const CallShape& shape, const CostModel& model,
                                RecursiveMultiplying pattern);

}  // namespace qpmesh::collectives
