// The barrier that names who is missing.
#pragma once

#include <cstdint>

#include "group.hpp"

namespace qpmesh_torch {

// It waits so long for all ranks, and has ended when it returns. Error: names all who have not
// come, or, after twice that time, rank 0 alone. The group goes on then. number: of such barriers,
// from 1 on, as this rank counts them.
void monitored_barrier(Group& group, std::uint64_t number, int timeout_ms);

}  // namespace qpmesh_torch
