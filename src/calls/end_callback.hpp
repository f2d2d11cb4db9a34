// SPDX-License-Identifier: MIT
// Tasks that wait for the end of an operation, when nobody else does.
#pragma once

#include <functional>
#include <memory>

#include "calls/pending_operation.hpp"

namespace qpmesh::calls {

// Within a call. The request is in flight, and has no function yet. Called once, by the engine's
// loop; what it throws is logged. The request may be gone by then.
void call_at_end(RequestState& request, std::function<void()> callback);

// Calls it; what it throws is logged.
void call_logged(const std::function<void()>& callback, const base::Log& log) noexcept;

// Within a call. The request is in flight. The coroutine goes on behind the call that finds the
// end, unless what is returned was taken before. Throws Error{bad_argument} where something else
// waits for the end: a function, or another coroutine.
[[nodiscard]] std::shared_ptr<progress::Resumption> resume_at_end(RequestState& request,
                                                                  void* coroutine);

// Within a call. The request is in flight, and is nobody's from here on: when it has ended it is
// settled and freed, and what went wrong is logged. Returns what may be the last reference to its
// communicator, which outlives the call.
[[nodiscard]] std::shared_ptr<context::CommunicatorState> detach(RequestState& request);

// Waits until no detached request is in flight, or the deadline: Error{timeout}.
void finish_detached(context::CommunicatorState& communicator, std::string_view operation,
                     const CallOptions& options);

}  // namespace qpmesh::calls
