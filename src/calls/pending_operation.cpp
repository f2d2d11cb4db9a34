// SPDX-License-Identifier: MIT
#include "calls/pending_operation.hpp"

#include <fmt/format.h>

#include "collectives/kernels/reduce.hpp"
#include "messaging/elements.hpp"

namespace qpmesh::calls {
namespace {

[[noreturn]] void throw_truncated(const PendingOperation& request) {
  const messaging::ReceiveOperation& receive = request.receive;
  base::throw_error(
      {ErrorCode::truncated, request.communicator->rank_of(receive.message_source)},
      request.operation, "the message stays in line for the next receive; probe() tells its size",
      "the message has {} bytes, the buffer {}", receive.message_bytes, receive.capacity_bytes);
}

std::string elements_in(std::uint32_t signature) {
  return context::describe_elements(messaging::type_in(signature),
                                    messaging::element_bytes_in(signature));
}

[[noreturn]] void throw_mistyped(const PendingOperation& request) {
  const messaging::ReceiveOperation& receive = request.receive;
  base::throw_error({ErrorCode::mismatch, request.communicator->rank_of(receive.message_source)},
                    request.operation,
                    "receive into elements of the sender's type, or into bytes; the message stays "
                    "in line for the next receive",
                    "the message holds {}, the buffer {}", elements_in(receive.message_signature),
                    elements_in(receive.signature));
}

// Of a communicator that has failed: nothing is left in flight.
void end_now(context::CommunicatorState& communicator) noexcept {
  communicator.context().messaging().end_closing(communicator.id());
  communicator.context().engine().run_ready();  // tasks end by being resumed
}

// Of a request whose communicator has failed. Peers have their time to give memory back: a link is
// worth more than an error that comes at once. What is left then ends, but for a buffer that a
// neighbour fills. The one wait that no deadline ends: what the neighbour has begun nobody can
// stop, and the buffer is not the caller's before.
void end_all_but_fills(PendingOperation& request, Others others = {}) {
  context::CommunicatorState& communicator = *request.communicator;
  const messaging::Messaging& messaging = communicator.context().messaging();
  const auto closed = [&] { return request.done() || !messaging.is_closing(communicator.id()); };
  if (!closed()) {
    wait_guarded(
        request,
        [&] {
          return communicator.wait(closed, request.operation, messaging::revocation_ms_max, others,
                                   progress::Asks::no);
        },
        closed);
  }
  if (request.done()) return;
  end_now(communicator);
  const auto over = [&] { return request.done() || !communicator.filler(); };
  while (!over()) {
    communicator.warn_filled(request.operation);
    wait_guarded(
        request,
        [&] { return communicator.wait(over, request.operation, 0, others, progress::Asks::no); },
        over);
  }
}

ErrorDetail detail_of(const PendingOperation& request, const std::exception_ptr& thrown) {
  return request.communicator->detail_of(request.operation, thrown);
}

// The other ranks are told, and the caller gets its own exception back.
[[noreturn]] void throw_task_error(PendingOperation& request) {
  const std::exception_ptr& thrown = request.task.error;
  ErrorDetail failure = detail_of(request, thrown);
  request.communicator->fail(failure, true);
  try {
    std::rethrow_exception(thrown);
  } catch (const collectives::UserFailure& user) {
    std::rethrow_exception(user.cause);
  } catch (...) {
    context::throw_failure(Error{std::move(failure)}, request.operation);
  }
}

}  // namespace

void break_by(PendingOperation& request, const std::exception_ptr& thrown) noexcept {
  request.communicator->fail(detail_of(request, thrown), true);
}

void end_broken(PendingOperation& request, const char* cause) noexcept {
  context::CommunicatorState& communicator = *request.communicator;
  communicator.fail({.code = ErrorCode::no_resource, .peer = communicator.rank(), .cause = cause},
                    true);
  end_now(communicator);
}

Status settle(PendingOperation& request) {
  if (request.settled) return request.status;
  request.settled = true;
  land(request);
  if (request.has_task && request.task.error) throw_task_error(request);
  if (request.has_send && request.send.failure != nullptr)
    context::throw_failure(*request.send.failure, request.operation);
  if (!request.has_receive) return {};
  const messaging::ReceiveOperation& receive = request.receive;
  if (receive.failure != nullptr) context::throw_failure(*receive.failure, request.operation);
  if (receive.truncated) throw_truncated(request);
  if (receive.mistyped) throw_mistyped(request);
  return request.status = received(request);
}

// An unmatched receive is taken back and the communicator lives on; anything else may be half done,
// here or at a peer, and breaks it.
void expire(PendingOperation& request) {
  context::CommunicatorState& communicator = *request.communicator;
  const ErrorDetail detail = communicator.vain_end_detail(request.operation, request.timeout_ms);
  if (detail.code == ErrorCode::timeout)
    communicator.context().log().error("{}: {}; {}", request.operation, detail.cause, detail.hint);
  if (take_back(request)) {
    communicator.remember_passing_error(detail);
    throw Error{detail};
  }
  communicator.fail(detail, true);
}

Status finish_late(PendingOperation& request, Others others) {
  expire(request);
  end_all_but_fills(request, others);
  if (!request.done()) {  // its communicator had failed before, and it was out of reach
    base::throw_error({ErrorCode::internal}, request.operation, "",
                      "the operation could not be ended at its deadline");
  }
  return settle(request);
}

bool spin_for_receive(PendingOperation& request) {
  messaging::Messaging& messaging = request.communicator->context().messaging();
  return wait_guarded(
      request, [&] { return messaging.spin_for(request.receive); },
      [&] { return request.receive.done; });
}

Status finish_waiting(PendingOperation& request, Others others) {
  if (Status status; settle_if_well(request, status)) return status;
  const auto is_done = [&] { return request.done(); };
  const bool only_receives = request.has_receive && !request.has_send && !request.has_task;
  const bool came = !is_done() && only_receives && spin_for_receive(request);
  if (came) request.communicator->context().engine().run_ready();  // on_end is told by this call
  const bool done = is_done() || wait_until(request, is_done, others);
  return done ? settle(request) : finish_late(request, others);
}

bool take_back(PendingOperation& request) noexcept {
  const bool only_receive =
      request.has_receive && (!request.has_send || request.send.done) && !request.has_task;
  if (!only_receive || !request.communicator->context().messaging().cancel(request.receive))
    return false;
  // Messaging has forgotten it.
  progress::Engine& engine = request.communicator->context().engine();
  engine.complete(request.receive);
  engine.run_ready();  // who is told of its end is told by this call
  request.settled = true;
  return true;
}

void end_unwound(PendingOperation& request) {
  if (!request.done() && take_back(request)) return;
  request.timeout_ms = unwinding_ms_max;
  if (!request.done() && !wait_until(
                             request, [&] { return request.done(); }, {}, progress::Asks::no)) {
    context::CommunicatorState& communicator = *request.communicator;
    communicator.fail(
        {.code = ErrorCode::aborted,
         .peer = communicator.rank(),
         .operation = std::string{request.operation},
         .cause = fmt::format("an exception ended {} on that rank while it was in flight",
                              request.operation),
         .hint = "what that rank says of its exception comes first"},
        true);
    end_all_but_fills(request);
  }
  if (request.done()) settle(request);
}

void require_no_requests(context::CommunicatorState& communicator, std::string_view operation) {
  communicator.requests().for_each([&](context::HeldRequest& held) {
    const auto& request = static_cast<const RequestState&>(held);
    if (request.done()) return;
    int peer = no_peer;
    std::string text{request.operation};
    if (request.has_send || request.has_receive) {
      const bool any_tag = request.has_receive && request.receive.any_tag;
      const int context_rank = request.has_receive ? request.receive.source : request.send.target;
      const auto tag = request.has_receive ? request.receive.key : request.send.key;
      if (context_rank != messaging::any_peer) peer = communicator.rank_of(context_rank);
      text +=
          fmt::format(" with {}, {},", peer == no_peer ? "any rank" : fmt::format("rank {}", peer),
                      any_tag ? "any tag" : fmt::format("tag {}", tag));
    }
    base::throw_error({ErrorCode::bad_argument, peer}, operation,
                      fmt::format("wait for every request, or cancel it, before {}()", operation),
                      "{} is still in flight", text);
  });
}

void require_no_calls(context::CommunicatorState& communicator, std::string_view operation) {
  if (!communicator.has_waiting_calls()) return;
  base::throw_error({ErrorCode::bad_argument}, operation,
                    fmt::format("let every call return before {}()", operation),
                    "another thread is in a call of the communicator that still waits");
}

}  // namespace qpmesh::calls
