#pragma once

#include "collectives/arguments.hpp"
#include "collectives/cost.hpp"
#include "collectives/group.hpp"

namespace qpmesh::collectives {

Task barrier_dissemination(Group group, const Arguments& arguments);
Cost barrier_dissemination_cost(const Shape& shape, const Model& model);

}  // namespace qpmesh::collectives
