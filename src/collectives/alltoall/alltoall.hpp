#pragma once

#include "collectives/arguments.hpp"
#include "collectives/cost.hpp"
#include "collectives/group.hpp"

namespace qpmesh::collectives {

Task alltoall_spread(Group group, const Arguments& arguments);
Task alltoall_bruck(Group group, const Arguments& arguments);
Cost alltoall_spread_cost(const Shape& shape, const Model& model);
Cost alltoall_bruck_cost(const Shape& shape, const Model& model);

}  // namespace qpmesh::collectives
