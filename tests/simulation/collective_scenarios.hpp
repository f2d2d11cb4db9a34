// SPDX-License-Identifier: MIT
// Runs generated calls of collectives in a simulated job.
#pragma once

#include <vector>

#include "simulation/collective_case.hpp"
#include "simulation/scenarios.hpp"

namespace qpmesh::test {

struct Collectives {
  NetworkConfig network;
  std::vector<CollectiveCase> cases;
  int communicators = 1;  // take the cases in turn
};
Outcome run_collectives(const Collectives& collectives);

}  // namespace qpmesh::test
