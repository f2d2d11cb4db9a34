#pragma once

#include "collectives/cost.hpp"
#include "collectives/group.hpp"
#include "collectives/patterns/subtree.hpp"

namespace qpmesh::collectives {

// A phase of other algorithms: every rank has its own block in place, afterwards the root has all
// of them.
Task binomial_gather(Group group, int root, Blocks blocks, SubtreePlaces mine);
Cost binomial_gather_cost(const CallShape& shape, const CostModel& model);

}  // namespace qpmesh::collectives
