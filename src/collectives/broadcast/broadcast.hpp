#pragma once

#include "collectives/arguments.hpp"
#include "collectives/cost.hpp"
#include "collectives/group.hpp"

namespace qpmesh::collectives {

Task broadcast_flat(Group group, const Arguments& arguments);
Task broadcast_binomial(Group group, const Arguments& arguments);
Task broadcast_scatter_allgather(Group group, const Arguments& arguments);
Task broadcast_chain(Group group, const Arguments& arguments);
Cost broadcast_flat_cost(const Shape& shape, const Model& model);
Cost broadcast_binomial_cost(const Shape& shape, const Model& model);
Cost broadcast_scatter_allgather_cost(const Shape& shape, const Model& model);
Cost broadcast_chain_cost(const Shape& shape, const Model& model);

}  // namespace qpmesh::collectives
