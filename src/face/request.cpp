// An operation in flight, as users hold it.
#include "qpmesh/request.hpp"

#include "calls/pending_operation.hpp"

namespace qpmesh {
namespace {

void destroy(calls::RequestState* state) noexcept {
  const std::shared_ptr<context::CommunicatorState> last =
      std::move(state->keep_alive);  // the pool outlives its block
  state->~RequestState();
  progress::FramePool::free(state);
}

void require_requests(std::size_t count, const char* operation) {
  if (count > 0) return;
  throw Error{{.code = ErrorCode::bad_argument,
               .operation = operation,
               .cause = "there are no requests",
               .hint = "wait for at least one"}};
}

bool is_done(const Request& request) { return request.state() == nullptr || request.state()->done(); }

}  // namespace

bool Request::test() {
  if (state_ == nullptr || state_->settled) return true;
  const context::Context::Entry entry{state_->communicator->context(), state_->operation};
  if (!state_->done()) state_->communicator->context().engine().step();
  if (!state_->done()) return false;
  calls::settle(*state_);
  return true;
}

Status Request::wait() {
  if (state_ == nullptr) return {};
  if (state_->settled) return state_->status;
  const context::Context::Entry entry{state_->communicator->context(), state_->operation};
  return calls::finish_waiting(*state_);
}

void Request::release() noexcept {
  calls::RequestState* const state = std::exchange(state_, nullptr);
  if (state == nullptr) return;
  context::Context& context = state->communicator->context();
  if (!state->settled) {
    try {
      const context::Context::Entry entry{context, state->operation};
      calls::finish_waiting(*state);
    } catch (...) {
      context.log().warning("a request that nobody waited for ended with: {}",
                            calls::text_of(std::current_exception()));
    }
  }
  // Still in flight: another thread is inside the context, or nothing could end it. A leak is better than freed memory that a ring,
  // a list or a device still knows.
  if (state->done()) destroy(state);
}

void wait_all(std::span<Request> requests) {
  std::exception_ptr first;
  for (Request& request : requests) {
    try {
      request.wait();
    } catch (...) {  // an Error, or what a user's reduction threw
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

std::size_t wait_any(std::span<Request> requests) {
  require_requests(requests.size(), "wait_any");
  std::size_t found = requests.size();
  const auto any_done = [&] {
    for (std::size_t i = 0; i < requests.size() && found == requests.size(); ++i) {
      if (is_done(requests[i])) found = i;
    }
    return found < requests.size();
  };
  if (any_done()) return found;
  // All progress together: a wait on one context does not move the others.
  context::CommunicatorState& communicator = *requests.front().state()->communicator;
  const auto any_done_anywhere = [&] {
    for (const Request& request : requests) {
      context::Context& context = request.state()->communicator->context();
      if (&context != &communicator.context()) context.engine().step();
    }
    return any_done();
  };
  const context::Context::Entry entry{communicator.context(), "wait_any"};
  if (!communicator.wait(any_done_anywhere, "wait_any", requests.front().state()->timeout_ms)) {
    throw Error{communicator.timeout_detail("wait_any", requests.front().state()->timeout_ms)};
  }
  return found;
}

}  // namespace qpmesh
