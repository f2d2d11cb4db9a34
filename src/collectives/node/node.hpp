// Algorithms for ranks that load each other's memory.
#pragma once

#include "collectives/arguments.hpp"
#include "collectives/cost.hpp"
#include "collectives/group.hpp"

namespace qpmesh::collectives {

Task barrier_one_shot(Group group, const Arguments& arguments);
Task broadcast_one_shot(Group group, const Arguments& arguments);
Task allreduce_one_shot(Group group, const Arguments& arguments);
Task reduce_one_shot(Group group, const Arguments& arguments);
Task reduce_scatter_one_shot(Group group, const Arguments& arguments);
Task allgather_one_shot(Group group, const Arguments& arguments);
Task alltoall_one_shot(Group group, const Arguments& arguments);

Task broadcast_staged(Group group, const Arguments& arguments);
Task allgather_staged(Group group, const Arguments& arguments);
Task alltoall_staged(Group group, const Arguments& arguments);

Task broadcast_single_copy(Group group, const Arguments& arguments);
Task gather_single_copy(Group group, const Arguments& arguments);
Task scatter_single_copy(Group group, const Arguments& arguments);
Task allgather_single_copy(Group group, const Arguments& arguments);
Task alltoall_single_copy(Group group, const Arguments& arguments);
Task allreduce_single_copy(Group group, const Arguments& arguments);
Task reduce_scatter_single_copy(Group group, const Arguments& arguments);

Task allreduce_slices(Group group, const Arguments& arguments);
Task reduce_slices(Group group, const Arguments& arguments);
Task reduce_scatter_slices(Group group, const Arguments& arguments);

// Do they apply: the ranks share memory, or read each other's private one; the vector fits a slot, an element fits a staging buffer.
bool fits_one_shot(const Shape& shape);
bool fits_staging(const Shape& shape);
bool fits_single_copy(const Shape& shape);

Cost barrier_one_shot_cost(const Shape& shape, const Model& model);
Cost broadcast_one_shot_cost(const Shape& shape, const Model& model);
Cost allreduce_one_shot_cost(const Shape& shape, const Model& model);
Cost reduce_one_shot_cost(const Shape& shape, const Model& model);
Cost reduce_scatter_one_shot_cost(const Shape& shape, const Model& model);
Cost allgather_one_shot_cost(const Shape& shape, const Model& model);
Cost alltoall_one_shot_cost(const Shape& shape, const Model& model);

Cost broadcast_staged_cost(const Shape& shape, const Model& model);
Cost allgather_staged_cost(const Shape& shape, const Model& model);
Cost alltoall_staged_cost(const Shape& shape, const Model& model);

Cost allreduce_slices_cost(const Shape& shape, const Model& model);
Cost reduce_slices_cost(const Shape& shape, const Model& model);
Cost reduce_scatter_slices_cost(const Shape& shape, const Model& model);

Cost broadcast_single_copy_cost(const Shape& shape, const Model& model);
Cost gather_single_copy_cost(const Shape& shape, const Model& model);
Cost scatter_single_copy_cost(const Shape& shape, const Model& model);
Cost allgather_single_copy_cost(const Shape& shape, const Model& model);
Cost alltoall_single_copy_cost(const Shape& shape, const Model& model);
Cost allreduce_single_copy_cost(const Shape& shape, const Model& model);
Cost reduce_scatter_single_copy_cost(const Shape& shape, const Model& model);

}  // namespace qpmesh::collectives
