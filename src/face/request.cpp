// SPDX-License-Identifier: MIT
// An operation in flight, as users hold it.
#include "qpmesh/request.hpp"

#include <algorithm>
#include <functional>
#include <list>
#include <optional>
#include <vector>

#include "calls/end_callback.hpp"
#include "calls/pending_operation.hpp"
#include "face/access.hpp"

namespace qpmesh {

using calls::CallScope;
using calls::RequestState;
using context::Context;
using detail::Access;

namespace {

Context& context_of(const RequestState& state) noexcept { return state.communicator->context(); }

// Do several threads call its context? Then its end is seen in a turn alone.
bool shares_context(const RequestState& state) noexcept {
  return context_of(state).turn() != nullptr;
}

// The contexts of requests that are waited for together, entered by this thread.
class Contexts {
 public:
  Contexts(std::span<const Request> requests, std::string_view operation) {
    for (const Request& request : requests) {
      if (request.is_in_flight()) add(context_of(*Access::state(request)));
    }
    if (first_ == nullptr) return;
    if (!more_.empty()) {
      sort();
      held_.emplace(first_->log());
    }
    first_scope_.emplace(*first_, operation);
    for (Context* const context : more_) scopes_.emplace_back(*context, operation);
  }

  // The sum of all.
  std::uint64_t completions() const noexcept {
    std::uint64_t sum = first_->engine().completions();
    for (Context* const context : more_) sum += context->engine().completions();
    return sum;
  }

  // Do several threads call one of them?
  bool any_is_shared() const noexcept {
    return first_->turn() != nullptr ||
           std::ranges::any_of(more_, [](Context* context) { return context->turn() != nullptr; });
  }

  // One look of each.
  void look() {
    if (first_ != nullptr) first_->waiter().look();
    for (Context* const context : more_) context->waiter().look();
  }

  // All but this one.
  calls::Others beside(Context& context) {
    waiters_.clear();
    if (!more_.empty() && &context != first_) waiters_.push_back(&first_->waiter());
    for (Context* const other : more_) {
      if (other != &context) waiters_.push_back(&other->waiter());
    }
    return waiters_;
  }

 private:
  void add(Context& context) {
    if (first_ == nullptr) first_ = &context;
    else if (first_ != &context && std::ranges::find(more_, &context) == more_.end())
      more_.push_back(&context);
  }

  // As Waiter::take_turns has it: where turns are waited for, all threads do it in one order.
  void sort() {
    more_.push_back(first_);
    std::ranges::sort(more_, std::less{});
    first_ = more_.front();
    more_.erase(more_.begin());
  }

  std::optional<progress::HeldResumptions> held_;  // until all are left
  Context* first_ = nullptr;                       // usually all: nothing is allocated
  std::optional<CallScope> first_scope_;
  std::vector<Context*> more_;
  std::list<CallScope> scopes_;
  std::vector<progress::Waiter*> waiters_;
};

bool has_ended_untold(const Request& request) {
  return Access::has_untold_end(request) ||
         (request.is_in_flight() && Access::state(request)->done());
}

// Was its end told? If that was an error it is told again.
bool is_told(const RequestState& state) {
  if (state.error) std::rethrow_exception(state.error);
  return state.settled;
}

// What end() returns or throws, which is told from now on.
template <class End>
Status tell(RequestState& state, End&& end) {
  try {
    const Status status = end();
    state.told();
    return status;
  } catch (...) {
    if (state.settled) {
      state.error = std::current_exception();
      state.told();
    }
    throw;
  }
}

}  // namespace

bool Request::is_in_flight() const noexcept { return state_ != nullptr && !state_->settled; }

bool Request::test() {
  untold_ = false;
  if (state_ == nullptr || is_told(*state_)) return true;
  const CallScope scope{context_of(*state_), state_->operation};
  if (!state_->done()) context_of(*state_).waiter().look();
  if (!state_->done()) return false;
  tell(*state_, [&] { return calls::settle(*state_); });
  return true;
}

Status Request::wait() {
  untold_ = false;
  if (state_ == nullptr) return {};
  if (is_told(*state_)) return state_->status;
  const CallScope scope{context_of(*state_), state_->operation};
  if (Status status; calls::settle_if_well(*state_, status)) {
    state_->told();
    return status;
  }
  return tell(*state_, [&] { return calls::finish_waiting(*state_); });
}

Status Request::finish() {
  if (state_ == nullptr || state_->settled) return wait();
  std::shared_ptr<context::CommunicatorState> last;  // outlives the call
  {
    const CallScope scope{context_of(*state_), state_->operation};
    if (Status status; calls::settle_if_well(*state_, status)) {
      last = RequestState::free_in_turn(std::exchange(state_, nullptr));
      return status;
    }
  }
  return wait();
}

bool Request::wait_for(std::chrono::milliseconds limit) {
  if (test()) return true;
  const CallScope scope{context_of(*state_), state_->operation};
  const auto done = [this] { return state_->done(); };
  if (limit.count() <= 0) return false;  // for the waiter that would be no limit
  constexpr std::int64_t decades_ms_max = std::int64_t{1} << 40;  // no sum with it overflows
  const std::int64_t timeout_ms = std::min<std::int64_t>(limit.count(), decades_ms_max);
  if (!context_of(*state_).waiter().wait_until(
          done, {.timeout_ms = timeout_ms, .asks = progress::Asks::yes})) {
    if (progress::Waiter::was_interrupted())
      state_->communicator->throw_vain_end(state_->operation, timeout_ms);
    return false;
  }
  tell(*state_, [&] { return calls::settle(*state_); });
  return true;
}

bool Request::cancel() {
  if (!is_in_flight()) return false;
  const CallScope scope{context_of(*state_), state_->operation};
  context_of(*state_).engine().step();  // a message that is here is received
  return !state_->done() && calls::take_back(*state_);
}

void Request::on_end(std::function<void()> callback) {
  if (!callback) calls::bad_argument("on_end", "give a function", "the function is empty");
  if (state_ == nullptr) return calls::call_logged(callback, base::Log{});
  const base::Log log = context_of(*state_).log();
  if (!state_->settled) {
    const CallScope scope{context_of(*state_), "on_end"};
    if (state_->kept && state_->kept->watched)
      calls::bad_argument("on_end", "call both from one function", "the request has a function");
    if (!state_->done()) return calls::call_at_end(*state_, std::move(callback));
    calls::land(*state_);
  }
  calls::call_logged(callback, log);
}

RequestAwaiter::~RequestAwaiter() {
  if (resumption_ != nullptr) resumption_->take();
}

bool RequestAwaiter::await_suspend(std::coroutine_handle<> waiter) {
  RequestState& state = *Access::state(*request_);
  const CallScope scope{context_of(state), "co_await"};
  if (state.done()) return false;
  resumption_ = calls::resume_at_end(state, waiter.address());
  return true;  // it may go on as soon as the scope is left: nothing here is touched behind that
}

void Request::detach() {
  std::shared_ptr<context::CommunicatorState> last;  // outlives the call
  if (is_in_flight()) {
    const CallScope scope{context_of(*state_), "detach"};
    if (!state_->done()) {
      last = calls::detach(*state_);
      state_ = nullptr;
      return;
    }
  }
  *this = {};  // its end is logged, where nobody was told
}

void Request::release() noexcept {
  RequestState* const state = std::exchange(state_, nullptr);
  if (state == nullptr || context_of(*state).is_inherited()) return;
  if (!state->settled) {
    try {
      const CallScope scope{context_of(*state), state->operation};
      if (std::uncaught_exceptions() > state->exceptions) calls::end_unwound(*state);
      else calls::finish_waiting(*state);
    } catch (...) {
      context_of(*state).log().warning("a request that nobody waited for ended with: {}",
                                       base::text_of(std::current_exception()));
    }
  }
  // Still in flight: another thread is inside the context, or nothing could end it. A leak is
  // better than freed memory that a ring, a list or a device still knows.
  if (state->done()) RequestState::destroy(state);
}

void wait_all(std::span<Request> requests) {
  Contexts contexts{requests, "wait_all"};
  std::exception_ptr first;
  for (Request& request : requests) {
    RequestState* const state = Access::state(request);
    if (state == nullptr) {
      request = {};
      continue;
    }
    try {
      if (is_told(*state)) continue;
      if (Status status; calls::settle_if_well(*state, status)) {
        state->told();
        continue;
      }
      tell(*state,
           [&] { return calls::finish_waiting(*state, contexts.beside(context_of(*state))); });
    } catch (...) {  // an Error, or what a user's reduction threw
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

bool test_all(std::span<Request> requests) {
  Contexts contexts{requests, "test_all"};
  contexts.look();
  return std::ranges::all_of(requests, [](const Request& request) {
    return !request.is_in_flight() || Access::state(request)->done();
  });
}

namespace {

// From `begin` on and around, the first request that is done, or else the first that is in flight;
// requests.size(): all ends were told. entered: their contexts are; otherwise those that several
// threads use are passed over as being in flight.
std::size_t find_done(std::span<const Request> requests, std::size_t begin, bool entered) {
  const std::size_t count = requests.size();
  std::size_t in_flight = count;
  std::size_t index = begin < count ? begin : 0;
  for (std::size_t looked = 0; looked < count; ++looked) {
    const Request& request = requests[index];
    if (Access::has_untold_end(request)) return index;
    if (request.is_in_flight()) {
      const RequestState& state = *Access::state(request);
      if ((entered || !shares_context(state)) && state.done()) return index;
      if (in_flight == count) in_flight = index;
    }
    if (++index == count) index = 0;
  }
  return in_flight;
}

// Where the next look begins: behind the request that this thread was given last, so that none
// starves and requests that end in their order cost one look each.
thread_local constinit std::size_t search_begin = 0;

// The one in flight whose deadline comes first; nullptr: none has one.
const RequestState* first_to_expire(std::span<const Request> requests) {
  const RequestState* first = nullptr;
  for (const Request& request : requests) {
    if (!request.is_in_flight() || Access::state(request)->timeout_ms == 0) continue;
    const RequestState* const state = Access::state(request);
    if (first == nullptr || state->timeout_ms < first->timeout_ms) first = state;
  }
  return first;
}

}  // namespace

std::size_t wait_any(std::span<Request> requests) {
  if (requests.empty())
    calls::bad_argument("wait_any", "wait for at least one", "there are no requests");
  std::size_t found = find_done(requests, search_begin, false);
  if (found == requests.size()) return found;
  if (Access::has_untold_end(requests[found])) {
    search_begin = found + 1;
    return found;
  }
  const RequestState& state = *Access::state(requests[found]);
  if (!shares_context(state) && state.done()) {
    const CallScope scope{context_of(state), "wait_any"};
  } else {
    Contexts contexts{requests, "wait_any"};
    // Of many requests few end between two looks: they are looked at when something has ended, and
    // first of all where another thread may have ended one.
    std::uint64_t seen = contexts.completions() - (contexts.any_is_shared() ? 1 : 0);
    const auto any_done = [&] {
      if (contexts.completions() != seen) {
        seen = contexts.completions();
        found = find_done(requests, search_begin, true);
      }
      return Access::state(requests[found])->done();
    };
    const RequestState* const first = first_to_expire(requests);
    const std::int64_t timeout_ms = first == nullptr ? 0 : first->timeout_ms;
    context::CommunicatorState& communicator = *(first == nullptr ? state : *first).communicator;
    if (!communicator.wait(any_done, "wait_any", timeout_ms,
                           contexts.beside(communicator.context())))
      communicator.throw_vain_end("wait_any", timeout_ms);
  }
  search_begin = found + 1;
  return found;
}

std::optional<std::size_t> test_any(std::span<Request> requests) {
  Contexts contexts{requests, "test_any"};
  contexts.look();
  const std::size_t found = find_done(requests, search_begin, true);
  if (found == requests.size() || !has_ended_untold(requests[found])) return std::nullopt;
  search_begin = found + 1;
  return found;
}

std::vector<std::size_t> wait_some(std::span<Request> requests) {
  std::vector<std::size_t> found;
  if (wait_any(requests) == requests.size()) return found;
  const Contexts contexts{requests, "wait_some"};
  for (std::size_t i = 0; i < requests.size(); ++i)
    if (has_ended_untold(requests[i])) found.push_back(i);
  return found;
}

}  // namespace qpmesh
