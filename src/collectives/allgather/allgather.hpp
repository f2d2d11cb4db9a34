#pragma once

#include "collectives/arguments.hpp"
#include "collectives/cost.hpp"
#include "collectives/group.hpp"

namespace qpmesh::collectives {

Task allgather_exchange(Group group, const Arguments& arguments);
Task allgather_circulant(Group group, const Arguments& arguments);
Task allgather_ring(Group group, const Arguments& arguments);
Cost allgather_exchange_cost(const Shape& shape, const Model& model);
Cost allgather_circulant_cost(const Shape& shape, const Model& model);
Cost allgather_ring_cost(const Shape& shape, const Model& model);

// A phase of other algorithms: this rank's block is in its place already; blocks without gaps.
Task circulant_allgather(Group group, std::byte* vector, Blocks blocks);
// wraps: the ranks that wait longest are those whose runs wrap at block N, a message more in each round.
Cost circulant_allgather_cost(const Shape& shape, const Model& model, bool wraps);

}  // namespace qpmesh::collectives
