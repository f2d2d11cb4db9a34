#pragma once

#include "collectives/arguments.hpp"
#include "collectives/cost.hpp"
#include "collectives/group.hpp"

namespace qpmesh::collectives {

Task scan_doubling(Group group, const Arguments& arguments);
Task exscan_doubling(Group group, const Arguments& arguments);
Cost scan_doubling_cost(const Shape& shape, const Model& model);
Cost exscan_doubling_cost(const Shape& shape, const Model& model);

}  // namespace qpmesh::collectives
