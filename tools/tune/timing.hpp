// Times of calls that all ranks make together.
#pragma once

#include <functional>
#include <vector>

#include "qpmesh/qpmesh.hpp"

namespace qpmesh::tune {

using Calls = std::vector<std::function<void()>>;

// Seconds that each of the calls takes on the slowest rank: that which a fifth of so many tries
// stay below, because a busy neighbour only ever adds time, and not seldom to most of them. The
// calls take turns, so that it meets all of them; a try is so many calls in a row that a clock read
// costs nothing beside them.
std::vector<double> times_s(Communicator& world, const Calls& calls, int tries);

// The same of what this rank does by itself, all ranks at the same time.
double time_s(Communicator& world, const std::function<void()>& call, int tries);

}  // namespace qpmesh::tune
