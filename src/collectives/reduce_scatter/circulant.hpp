#pragma once

#include "collectives/arguments.hpp"
#include "collectives/cost.hpp"
#include "collectives/group.hpp"

namespace qpmesh::collectives {

// A phase of other algorithms: in and sums are whole vectors, the same memory or none in common.
// Afterwards this rank's block of sums is complete and the others hold partial sums or nothing. in
// is never copied: the first reduction of a block takes its operand from there. For reducers that
// commute; blocks without gaps; at least two ranks.
Task circulant_reduce_scatter(Group group, const std::byte* in, std::byte* sums, Blocks blocks,
                              Reducer reducer);
// wraps: the ranks that wait longest are those whose runs wrap at block N, a message more in each
// round.
Cost circulant_reduce_scatter_cost(const CallShape& shape, const CostModel& model, bool wraps);

}  // namespace qpmesh::collectives
