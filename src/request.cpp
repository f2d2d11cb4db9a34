#include <fmt/format.h>

#include "collectives/kernels/reducer.hpp"
#include "request_state.hpp"

namespace qpmesh {
namespace detail {
namespace {

Error truncated(const Waiting& request) {
  const messaging::ReceiveOperation& receive = request.receive;
  return Error{{.code = ErrorCode::truncated,
                .peer = request.communicator->rank_of(receive.message_source),
                .operation = std::string{request.operation},
                .cause = fmt::format("the message has {} bytes, the buffer {}", receive.message_bytes,
                                     receive.capacity_bytes),
                .hint = "the message stays in line for the next receive; probe() tells its size"}};
}

std::string text_of(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "no std::exception";
  }
}

// Of a communicator that has failed: nothing is left in flight.
void end_now(CommunicatorState& communicator) noexcept {
  communicator.context().messaging().sever(communicator.id());
  communicator.context().engine().run_ready();  // tasks end by being resumed
}

// What a deadline leaves behind. An unmatched receive is taken back and the communicator lives on; anything
// else may be half done, here or at a peer, and breaks it.
void end_expired(Waiting& request) {
  CommunicatorState& communicator = *request.communicator;
  const ErrorDetail detail = communicator.timeout_detail(request.operation, request.timeout_ms);
  communicator.context().log().error("{}: {}; {}", request.operation, detail.cause, detail.hint);
  const bool only_receive =
      request.has_receive && (!request.has_send || request.send.done) && !request.has_task;
  if (only_receive && communicator.context().messaging().cancel(request.receive)) {
    request.receive.done = true;  // messaging has forgotten it
    request.settled = true;
    throw Error{detail};
  }
  communicator.fail(detail, true);
  end_now(communicator);
}

}  // namespace

void end_broken(Waiting& request, const char* cause) noexcept {
  CommunicatorState& communicator = *request.communicator;
  communicator.fail({.code = ErrorCode::no_resource, .peer = communicator.rank(), .cause = cause}, true);
  end_now(communicator);
}

Status settle(Waiting& request) {
  if (request.settled) return request.status;
  request.settled = true;
  if (request.has_task && request.task.error) {
    try {
      std::rethrow_exception(request.task.error);
    } catch (const Error& error) {
      // A failure inside a step breaks the whole communicator, so that no other rank waits for us.
      request.communicator->fail(error.detail(), true);
      throw_failure(error, request.operation);
    } catch (
        const collectives::UserFailure& thrown) {  // ours are told, the caller gets its own exception back
      request.communicator->fail(
          {.code = ErrorCode::aborted,
           .peer = request.communicator->rank(),
           .operation = std::string{request.operation},
           .cause = "the reduction function of that rank threw: " + text_of(thrown.cause)},
          true);
      std::rethrow_exception(thrown.cause);
    } catch (const std::exception& error) {
      const Error failure{
          {.code = ErrorCode::no_resource, .peer = request.communicator->rank(), .cause = error.what()}};
      request.communicator->fail(failure.detail(), true);
      throw_failure(failure, request.operation);
    }
  }
  if (request.has_send && request.send.failure != nullptr)
    throw_failure(*request.send.failure, request.operation);
  if (!request.has_receive) return {};
  const messaging::ReceiveOperation& receive = request.receive;
  if (receive.failure != nullptr) throw_failure(*receive.failure, request.operation);
  if (receive.truncated) throw truncated(request);
  return request.status = received(request);
}

Status finish_late(Waiting& request) {
  end_expired(request);
  if (!request.done()) {  // its communicator had failed before, and it was out of reach
    throw Error{{.code = ErrorCode::internal,
                 .operation = std::string{request.operation},
                 .cause = "the operation could not be ended at its deadline"}};
  }
  return settle(request);
}

Status finish_waiting(Waiting& request) {
  const bool in_time = request.done() || wait_until(request, [&] { return request.done(); });
  return in_time ? settle(request) : finish_late(request);
}

}  // namespace detail

using detail::RequestState;

namespace {

void destroy(RequestState* state) noexcept {
  const std::shared_ptr<detail::CommunicatorState> last =
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
  const detail::Context::Entry entry{state_->communicator->context(), state_->operation};
  if (!state_->done()) state_->communicator->context().engine().step();
  if (!state_->done()) return false;
  detail::settle(*state_);
  return true;
}

Status Request::wait() {
  if (state_ == nullptr) return {};
  if (state_->settled) return state_->status;
  const detail::Context::Entry entry{state_->communicator->context(), state_->operation};
  return detail::finish_waiting(*state_);
}

void Request::release() noexcept {
  RequestState* const state = std::exchange(state_, nullptr);
  if (state == nullptr) return;
  detail::Context& context = state->communicator->context();
  if (!state->settled) {
    try {
      const detail::Context::Entry entry{context, state->operation};
      detail::finish_waiting(*state);
    } catch (...) {
      context.log().warning("a request that nobody waited for ended with: {}",
                            detail::text_of(std::current_exception()));
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
  detail::CommunicatorState& communicator = *requests.front().state()->communicator;
  const auto any_done_anywhere = [&] {
    for (const Request& request : requests) {
      detail::Context& context = request.state()->communicator->context();
      if (&context != &communicator.context()) context.engine().step();
    }
    return any_done();
  };
  const detail::Context::Entry entry{communicator.context(), "wait_any"};
  if (!communicator.wait(any_done_anywhere, "wait_any", requests.front().state()->timeout_ms)) {
    throw Error{communicator.timeout_detail("wait_any", requests.front().state()->timeout_ms)};
  }
  return found;
}

}  // namespace qpmesh
