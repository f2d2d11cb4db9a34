// SPDX-License-Identifier: MIT
// A call, blocking and not: the same preparation, on the stack or in the pool.
#pragma once

#include <memory>
#include <string_view>

#include "calls/pending_operation.hpp"
#include "face/access.hpp"
#include "qpmesh/request.hpp"

namespace qpmesh::calls {

template <class Prepare>
Status run(context::CommunicatorState& state, std::string_view operation,
           const CallOptions& options, Prepare&& prepare) {
  const CallScope scope{state, operation, options};
  PendingOperation request{state, operation, options};
  prepare(request);
  return finish_waiting(request);
}

// Within the scope of its call.
template <class Prepare>
Request run_async(const std::shared_ptr<context::CommunicatorState>& state,
                  std::string_view operation, const CallOptions& options, const void* read,
                  const void* written, Prepare&& prepare) {
  context::Context& context = state->context();
  void* const memory = context.engine().pool().allocate(sizeof(RequestState));
  auto* const request = ::new (memory) RequestState{state, operation, options};
  try {
    const context::Allocations& buffers = context.allocations();
    if (read != nullptr && buffers.may_hold(read)) [[unlikely]]
      request->keep().buffers[0] = buffers.at(read);
    if (written != nullptr && buffers.may_hold(written)) [[unlikely]]
      request->keep().buffers[1] = buffers.at(written);
    prepare(*request);
  } catch (...) {  // nothing was started: arguments are checked before
    RequestState::destroy(request);
    throw;
  }
  return detail::Access::request(request);
}

}  // namespace qpmesh::calls
