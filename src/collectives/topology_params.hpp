// From the constants of a machine to what a call's time is predicted with: by how its ranks reach
// each other, how many share a core, and whether its vectors fit the cache.
#pragma once

#include "collectives/constants.hpp"
#include "collectives/cost.hpp"

namespace qpmesh::collectives {

// How the ranks of a communicator reach each other. The same on all of them.
struct TopologyParams {
  Constants constants{};
  bool shares_memory = false;  // otherwise a network
  int ranks_per_core = 1;

  CostModel model(const CallShape& shape) const noexcept;
};

}  // namespace qpmesh::collectives
