// SPDX-License-Identifier: MIT
// The chosen algorithm beside every one that could run, each forced, on the same buffers.
#pragma once

#include <cstddef>
#include <optional>

#include "bench/harness/harness.hpp"
#include "bench/harness/report.hpp"
#include "bench/harness/sampling.hpp"

namespace qpmesh::bench {

// The one that is the fastest, after 100 calls, and 30 ms, of what is chosen. Collective.
//
// All take turns, the chosen one among them, each turn within some milliseconds, so that a machine
// that drifts favours none. What one algorithm leaves in rings, staging and caches makes the next
// one up to five times as slow, or as fast: so in each turn each runs for a while before it is
// timed. A ratio is of one turn, and the median over turns counts. Those that are far behind leave
// after two turns. turns: exactly so many. compute_s: before each call, not timed.
//
// The comparison's `itself` is the ratio of the algorithm that was chosen, forced: how far it is
// from 1 is what this measurement cannot tell. Nothing where nothing could be forced.
std::optional<Comparison> best_row(Case& subject, std::optional<std::size_t> turns,
                                   double compute_s, const Agreement& agreement);

}  // namespace qpmesh::bench
