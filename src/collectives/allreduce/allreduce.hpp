#pragma once

#include "collectives/arguments.hpp"
#include "collectives/cost.hpp"
#include "collectives/group.hpp"

namespace qpmesh::collectives {

Task allreduce_butterfly(Group group, const Arguments& arguments);
Task allreduce_exchange(Group group, const Arguments& arguments);
Task allreduce_circulant(Group group, const Arguments& arguments);
Task allreduce_ring(Group group, const Arguments& arguments);
Cost allreduce_butterfly_cost(const Shape& shape, const Model& model);
Cost allreduce_exchange_cost(const Shape& shape, const Model& model);
Cost allreduce_circulant_cost(const Shape& shape, const Model& model);
Cost allreduce_ring_cost(const Shape& shape, const Model& model);

}  // namespace qpmesh::collectives
