// SPDX-License-Identifier: MIT
// Points in time. Only the monotonic clock is ever read, so that a change of
// the wall clock moves no deadline.
#pragma once

#include "qpmesh/detail/standard.hpp"

namespace qpmesh {

// A point in time, and the one that never comes.
using Deadline = std::chrono::steady_clock::time_point;
inline constexpr Deadline no_deadline = Deadline::max();

}  // namespace qpmesh
