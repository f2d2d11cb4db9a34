#pragma once

#include "collectives/cost.hpp"
#include "collectives/group.hpp"
#include "collectives/patterns/subtree.hpp"

namespace qpmesh::collectives {

// A phase of other algorithms: the root has all blocks, afterwards every rank has those of its
// subtree.
Task binomial_scatter(Group group, int root, Blocks blocks, SubtreePlaces mine);
Cost binomial_scatter_cost(const CallShape& shape, const CostModel& model);

}  // namespace qpmesh::collectives
