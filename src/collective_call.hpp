// A collective as the face passes it on: checked, told apart, started.
#pragma once

#include "request_state.hpp"

namespace qpmesh::detail {

// Checks what the caller gave, on this rank alone; then counts the operation and starts it. Throws Error{bad_argument} with
// nothing sent and nothing counted.
void start_collective(Waiting& request, const AnyCollective& what);

}  // namespace qpmesh::detail
