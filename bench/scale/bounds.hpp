// SPDX-License-Identifier: MIT
// What no algorithm can beat under the model.
#pragma once

#include "collectives/cost.hpp"
#include "qpmesh/collective.hpp"

namespace qpmesh::bench {

// The latest of three, each a bound by itself:
// - One rank's word (the root's; for a reduction to a root the same backwards) must reach all: the
// greedy tree in which whoever knows tells
//   another one as often as its port lets it (R. Karp, A. Sahay, E. Santos, K. Schauser, "Optimal
//   broadcast and summation in the LogP model", 1993).
// - Some rank's port carries so many bytes, and one of them takes a latency more: 2 (N-1)/N S for
// an allreduce (P. Patarasuk, X. Yuan, 2009),
//   S for what has one vector, (N-1)/N S for what has a block for each rank.
// - Some rank's CPU combines so many bytes: S for a scan, (N-1)/N S for others (E. Chan, M.
// Heimlich, A. Purkayastha, R. van de Geijn, "Collective communication:
//   theory, practice, and experience", 2007).
// With levels, where the ranks of a node share its link:
// - The word must reach all ranks, of those that know each telling its node and others at once.
// - Some node's link carries so many bytes, and each rank's port its own, at the faster of the two
//   speeds.
double lower_bound_s(Collective collective, const collectives::CallShape& shape,
                     const collectives::TopologyParams& topology);

}  // namespace qpmesh::bench
