// A collective as the face passes it on: checked, told apart, started.
#pragma once

#include "request_state.hpp"

namespace qpmesh::detail {

// Checks what the caller gave, on this rank alone; then counts the operation and starts it. Throws Error{bad_argument} with
// nothing sent and nothing counted. algorithm_asked_for: Call::algorithm.
void start_collective(Waiting& request, const AnyCollective& what, std::string_view algorithm_asked_for);

}  // namespace qpmesh::detail
