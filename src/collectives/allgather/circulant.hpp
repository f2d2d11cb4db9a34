#pragma once

#include "collectives/cost.hpp"
#include "collectives/group.hpp"
#include "collectives/patterns/blocks.hpp"

namespace qpmesh::collectives {

// A phase of other algorithms: this rank's block is in its place already; blocks without gaps.
Task circulant_allgather(Group group, std::byte* vector, Blocks blocks);
// wraps: the ranks that wait longest are those whose runs wrap at block N, a message more in each
// round.
Cost circulant_allgather_cost(const CallShape& shape, const CostModel& model, bool wraps);

}  // namespace qpmesh::collectives
