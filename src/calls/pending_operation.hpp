// SPDX-License-Identifier: MIT
// The entry of a call, and an operation in flight on behalf of a caller: started, waited for, and
// settled.
#pragma once

#include <array>
#include <exception>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "calls/argument_checks.hpp"
#include "collectives/algorithm.hpp"
#include "context/communicator_state.hpp"
#include "messaging/operations.hpp"
#include "progress/resumption.hpp"
#include "progress/task.hpp"

namespace qpmesh::calls {

// As long as a call runs: no other one is inside the context. Where several threads may call it
// waits for its turn. Throws what a call that begins now must throw, in this order: another thread
// is inside, or this one is already, the communicator has failed or finished, the options make no
// sense.
class CallScope {
 public:
  CallScope(context::Context& context, std::string_view operation) : context_{context} {
    context.enter(operation);
  }
  CallScope(context::CommunicatorState& communicator, std::string_view operation,
            const CallOptions& options)
      : CallScope{communicator.context(), operation} {
    communicator.require_usable(operation);
    check_options(options, operation);
    communicator.count_call();
  }
  ~CallScope() { context_.exit(); }
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;

 private:
  context::Context& context_;
};

// An operation in flight and how to end it. On the stack of a blocking call.
struct PendingOperation {
  PendingOperation(context::CommunicatorState& state, std::string_view name,
                   const CallOptions& options) noexcept
      : communicator{&state}, operation{name}, timeout_ms{state.timeout_ms_of(options)} {}

  context::CommunicatorState* communicator;
  std::string_view operation;  // a literal
  std::int64_t timeout_ms;     // 0: for ever
  bool has_send = false;
  bool has_receive = false;
  bool has_task = false;
  Status status{};       // once settled well
  bool settled = false;  // the end was reported: by a return, or by throwing once
  progress::TaskOperation task;
  // Unions: constructed by who sets has_…; most requests have one of them, and clearing
  // the others would cost as much as sending.
  union {
    messaging::SendOperation send;
    collectives::Arguments arguments;  // of the task
  };
  union {
    messaging::ReceiveOperation receive;
  };

  bool done() const noexcept {
    return (!has_send || send.done) && (!has_receive || receive.done) && (!has_task || task.done);
  }
  // There is nothing to settle then: what has a task has no messages beside it.
  bool task_ended_well() const noexcept { return task.done && !task.error; }
};

// Ends an operation that something else than itself brought down, such as std::bad_alloc while it
// was waited for, with its communicator. Where there is no memory even for that the process ends.
void end_broken(PendingOperation& request, const char* cause) noexcept;

// wait(), which says whether it is done. Nothing is thrown past an operation that is registered and
// lies in the caller's frame.
template <class Wait, class Done>
bool wait_guarded(PendingOperation& request, Wait&& wait, Done&& done) {
  try {
    return wait();
  } catch (const std::exception& error) {
    end_broken(request, error.what());
    return done();
  }
}
using Others = progress::Waiter::Others;
// Waits, and progresses other contexts; false: the deadline has passed, or it was interrupted.
template <class Done>
bool wait_until(PendingOperation& request, Done&& done, Others others = {},
                progress::Asks asks = progress::Asks::yes) {
  return wait_guarded(
      request,
      [&] {
        return request.communicator->wait(done, request.operation, request.timeout_ms, others,
                                          asks);
      },
      done);
}

// The beginning of a wait for a receive and nothing else: looks at its source alone (spin_for).
bool spin_for_receive(PendingOperation& request);

// What has come lies where it belongs from here on, and memory for it is given back. It is done;
// what has landed stays as it is.
inline void land(PendingOperation& request) noexcept {
  if (request.has_receive) land_head(request.receive);
}
// What a receive that ended well got.
inline Status received(PendingOperation& request) noexcept {
  messaging::ReceiveOperation& receive = request.receive;
  land_head(receive);
  return {.source = request.communicator->rank_of(receive.message_source),
          .tag = static_cast<int>(receive.message_key),
          .bytes = receive.message_bytes};
}
// The usual end, without a call: done, and well. False: wait for it, or settle() says what went
// wrong. status is what was received, as it was made: to read it back out of the request, or out of
// an optional, would wait.
inline bool settle_if_well(PendingOperation& request, Status& status) noexcept {
  status = request.status;
  if (request.settled) return true;
  if (request.has_task && !request.task_ended_well()) return false;
  if (request.has_send && (!request.send.done || request.send.failure != nullptr)) return false;
  if (request.has_receive) {
    const messaging::ReceiveOperation& receive = request.receive;
    if (!receive.done || receive.failure != nullptr || receive.truncated || receive.mistyped)
      return false;
    request.status = status = received(request);
  }
  return request.settled = true;
}
// Throws what went wrong; otherwise what was received. The operation is done.
Status settle(PendingOperation& request);
// The wait has ended in vain: throws where that leaves nothing behind, and otherwise fails what is
// in flight, which ends when nothing touches its memory any more.
void expire(PendingOperation& request);
// The same, ends what is still in flight, and settles. Peers have revocation_ms_max to give memory
// back, and a neighbour that has begun to fill the buffer is waited for.
Status finish_late(PendingOperation& request, Others others = {});
// Waits until done, the deadline or an interruption, ends what is still in flight then, and
// settles.
Status finish_waiting(PendingOperation& request, Others others = {});
// A receive that no message has matched, and what is left of an exchange whose message has gone: it
// never was. False: it goes on.
bool take_back(PendingOperation& request) noexcept;
// So long the request of a caller whose exception passes by is waited for, when it cannot be taken
// back; then its peers have messaging::revocation_ms_max to give its memory back.
inline constexpr std::int64_t unwinding_ms_max = 200;
// Nobody will ask for it any more: takes it back, or waits at most so long, or ends it with its
// communicator.
void end_unwound(PendingOperation& request);

// What ended a step of the operation on this rank breaks its communicator, so that no other rank
// waits for it. Where there is no memory even for that the process ends.
void break_by(PendingOperation& request, const std::exception_ptr& thrown) noexcept;

struct RequestState;

// What a task that waits for the end of a request shares with who asked for it: with the request,
// and with the awaiter of a coroutine.
struct Watched : progress::Resumption {
  explicit Watched(RequestState& of) noexcept : request{&of} {}

  RequestState* request;  // nullptr: it is gone
  bool detached = false;  // who waits settles and frees it
  bool awaited = false;   // by a coroutine, and not by a function
};

// What a Request points to; in its context's pool, and known to its communicator.
struct RequestState : PendingOperation, context::HeldRequest {
  RequestState(const std::shared_ptr<context::CommunicatorState>& state, std::string_view name,
               const CallOptions& options) noexcept
      : PendingOperation{*state, name, options}, HeldRequest{name, PendingOperation::task} {
    state->hold(*this, state);
    if (context::Trace* const trace = state->context().trace(); trace != nullptr) [[unlikely]]
      trace->begin_request(keep().traced.emplace());
  }
  RequestState(const RequestState&) = delete;
  RequestState& operator=(const RequestState&) = delete;

  // Ends it, in a turn. What is returned goes when nothing needs the context any more: the pool
  // outlives its block, and the turn.
  [[nodiscard]] static std::shared_ptr<context::CommunicatorState> free_in_turn(
      RequestState* state) noexcept {
    state->told();
    calls::land(*state);
    if (state->kept && state->kept->watched) state->kept->watched->request = nullptr;
    std::shared_ptr<context::CommunicatorState> last = state->communicator->let_go(*state);
    state->~RequestState();
    progress::FramePool::free(state);
    return last;
  }
  static void destroy(RequestState* state) noexcept {
    std::shared_ptr<context::CommunicatorState> last;
    const progress::HeldTurn turn{state->communicator->context().turn()};
    last = free_in_turn(state);
  }

  // What the operation uses and the caller may let go of: most have nothing of that kind.
  struct Kept {
    std::shared_ptr<const void> function;                         // a user's reduction
    std::array<std::shared_ptr<context::Allocation>, 2> buffers;  // it reads or writes them
    std::vector<std::shared_ptr<context::Allocation>> listed;     // of blocks that are ranges
    std::shared_ptr<Watched> watched;
    std::optional<context::TracedCall> traced;  // until its end is told
  };
  Kept& keep() { return kept ? *kept : kept.emplace(); }
  // The caller learns of its end. In a turn.
  void told() noexcept {
    if (!kept || !kept->traced) [[likely]]
      return;
    communicator->context().trace()->end_request(*kept->traced);
    kept->traced.reset();
  }

  std::optional<Kept> kept;
  std::exception_ptr error;                     // what it ended with, once that was told
  int exceptions = std::uncaught_exceptions();  // when it began

 private:
  ~RequestState() = default;
};

// Of a call that is a part of what ends at that time; one that has passed gives it a moment.
inline TimeLimit limit_until(const base::System& system, Deadline deadline) noexcept {
  using std::chrono::milliseconds;
  if (deadline == no_deadline) return no_limit;
  return std::max<Deadline::duration>(deadline - system.now(), milliseconds{1});
}

// Checks what the caller gave, on this rank alone; then counts the operation and starts it. Throws
// Error{bad_argument} with nothing sent and nothing counted. algorithm_asked_for:
// CallOptions::algorithm.
void start_collective(PendingOperation& request, const detail::AnyCollective& what,
                      std::string_view algorithm_asked_for);
void start_collective(PendingOperation& request, const detail::AnyVectors& what,
                      std::string_view algorithm_asked_for);
// Throws what that would throw, and does nothing else. Returns the reduction, as a call says it.
std::uint8_t check_collective(context::CommunicatorState& communicator,
                              const detail::AnyCollective& what,
                              std::string_view algorithm_asked_for, std::string_view operation);
// The first, and waits for its end: a whole blocking call. What ends at once costs little more than
// to count it.
void run_collective(context::CommunicatorState& communicator, const detail::AnyCollective& what,
                    const CallOptions& options);

// What begin() counted, by this algorithm: behind calls that wait for their turn. The arguments
// outlive the task.
collectives::Task task_of(context::CommunicatorState& communicator, const collectives::Group& group,
                          const collectives::Algorithm& algorithm,
                          const collectives::Arguments& arguments);
// Starts it.
void start_algorithm(PendingOperation& request, const collectives::Group& group,
                     const collectives::Algorithm& algorithm,
                     const collectives::Arguments& arguments);

// The same of any task; make() returns it.
template <class Make>
void start_task(PendingOperation& request, Make&& make) {
  request.has_task = true;
  request.communicator->context().engine().start(request.task, make);
}

// Throws what a last call must throw while one of the communicator's requests is in flight, or,
// when there is none, a call of another thread.
void require_no_requests(context::CommunicatorState& communicator, std::string_view operation);
void require_no_calls(context::CommunicatorState& communicator, std::string_view operation);

}  // namespace qpmesh::calls
