// A collective as the face passes it on: checked, told apart, started.
#pragma once

#include "calls/pending_operation.hpp"
#include "qpmesh/detail/untyped.hpp"

namespace qpmesh::calls {

// Checks what the caller gave, on this rank alone; then counts the operation and starts it. Throws
// Error{bad_argument} with nothing sent and nothing counted. algorithm_asked_for: Call::algorithm.
void start_collective(PendingOperation& request, const detail::AnyCollective& what,
                      std::string_view algorithm_asked_for);

}  // namespace qpmesh::calls
