#pragma once

#include "collectives/arguments.hpp"
#include "collectives/cost.hpp"
#include "collectives/group.hpp"

namespace qpmesh::collectives {

Task reduce_knomial(Group group, const Arguments& arguments);
Task reduce_scatter_gather(Group group, const Arguments& arguments);
Cost reduce_knomial_cost(const Shape& shape, const Model& model);
Cost reduce_scatter_gather_cost(const Shape& shape, const Model& model);

}  // namespace qpmesh::collectives
