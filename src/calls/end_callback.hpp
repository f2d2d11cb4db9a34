// A function of the caller's that is called when an operation has ended.
#pragma once

#include <functional>

#include "calls/pending_operation.hpp"

namespace qpmesh::calls {

// Within a call. The request is in flight, and has none yet. Called once, by the engine's loop;
// what it throws is logged. The request may be gone by then.
void call_at_end(RequestState& request, std::function<void()> callback);

}  // namespace qpmesh::calls
