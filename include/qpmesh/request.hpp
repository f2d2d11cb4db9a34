// SPDX-License-Identifier: MIT
// An operation in flight.
#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <ratio>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "qpmesh/detail/standard.hpp"
#include "qpmesh/export.h"

namespace qpmesh {

namespace calls {
struct RequestState;
}
namespace detail {
struct Access;
}
namespace progress {
struct Resumption;
}
class RequestAwaiter;

inline constexpr int any_source = -1;  // receive, probe: whoever sends
inline constexpr int any_tag = -1;     // receive, probe: whatever the tag
// A partner that is not there, as beyond the edge of a grid: nothing goes to it, and an empty
// message comes from it at once.
inline constexpr int no_rank = -2;

// What a receive got, or what a probe saw. Send and collective requests leave it as it is here.
struct Status {
  int source = no_rank;   // rank in the communicator that was used
  int tag = any_tag;      // of the message
  std::size_t bytes = 0;  // of the message
};

// Of a sendrecv: of what is sent, and of what is received. One number is both.
struct Tags {
  // Both alike.
  // Implicit: a number alone is a tag
  constexpr Tags(int both = 0) noexcept : sent{both}, received{both} {}

  // Each.
  constexpr Tags(int of_sent, int of_received) noexcept : sent{of_sent}, received{of_received} {}

  int sent;      // of the message that goes
  int received;  // of the one that comes
};

// How long a call may take: a duration, in whole milliseconds, rounded up; no_limit; or, where
// nothing is said, Options::operation_timeout_ms.
class TimeLimit {
 public:
  // The longest duration: a year.
  static constexpr std::chrono::milliseconds max = std::chrono::hours{365 * 24};

  // That of the options; or this duration; or none.
  constexpr TimeLimit() noexcept = default;
  template <class Rep, class Period>
  // Implicit: a duration alone is a limit
  constexpr TimeLimit(std::chrono::duration<Rep, Period> limit) noexcept : ms_{whole_ms(limit)} {}
  static constexpr TimeLimit none() noexcept {
    TimeLimit limit;
    limit.ms_ = for_ever;
    return limit;
  }

  // 1 ms to max, or one of the others. A call with another one is Error{bad_argument}.
  constexpr bool is_valid() const noexcept {
    return ms_ == of_options || ms_ == for_ever || (ms_ > 0 && ms_ <= max.count());
  }
  constexpr bool is_of_options() const noexcept { return ms_ == of_options; }
  // 0: none.
  constexpr std::int64_t ms_or(std::int64_t ms_of_options) const noexcept {
    if (ms_ == of_options) return ms_of_options;
    return ms_ == for_ever ? 0 : ms_;
  }

 private:
  static constexpr std::int64_t of_options = std::numeric_limits<std::int64_t>::min();
  static constexpr std::int64_t for_ever = std::numeric_limits<std::int64_t>::max();

  // What is not a number, or too long to be counted, is not valid.
  template <class Rep, class Period>
  static constexpr std::int64_t whole_ms(std::chrono::duration<Rep, Period> limit) noexcept {
    const double ms = std::chrono::duration<double, std::milli>{limit}.count();
    if (!(ms > -1e15)) return of_options + 1;
    if (ms > 1e15) return for_ever - 1;
    return std::chrono::ceil<std::chrono::milliseconds>(limit).count();
  }

  std::int64_t ms_ = of_options;
};
// A call without a limit.
inline constexpr TimeLimit no_limit = TimeLimit::none();

// How one call is made: the trailing argument of every call.
struct CallOptions {
  TimeLimit timeout{};  // of the call, or of its request
  // Collectives: which one runs, the same on every rank; empty: Options::algorithms, else the one
  // that is measured, or predicted, to be fastest. Unknown names, and those that do not
  // apply, are Error{bad_argument}. Read during the call only.
  std::string_view algorithm{};
  // Sends, and those of a sendrecv: over when a receive has taken the message, however short it is.
  bool synchronous = false;
  // Receives: of a message that is longer than the buffer its head is received and the rest is
  // dropped; Status::bytes tells how long it was. Until then the whole takes memory. Otherwise:
  // Error{truncated}.
  bool head = false;
};

// An operation in flight, or one that has ended. Move-only. Keeps its context alive while it is in
// flight. One thread at a time uses a request, whichever thread that is where Options::threads lets
// several call. The buffers named at the start belong to the operation until test() has returned
// true, wait() has returned or thrown, or cancel() has returned true. An error stays told: test()
// and wait() throw it every time. The destructor of a request in flight waits, at most until the
// operation's deadline: a hang with a name is better than memory overwritten behind the caller's
// back. While an exception passes by it cancels the operation, or waits for at most 200 ms: the
// exception is seen soon. What has not ended then, such as a collective that others have not come
// to, ends with its communicator: Error{aborted} on the other ranks. What a destructor swallows, it
// logs.
class [[nodiscard]] QPMESH_API Request {
 public:
  // Done already; calls make the others.
  Request() noexcept = default;
  // What was moved from is done.
  Request(Request&& other) noexcept
      : state_{std::exchange(other.state_, nullptr)},
        untold_{std::exchange(other.untold_, false)} {}
  Request& operator=(Request&& other) noexcept {
    if (this != &other) {
      if (state_ != nullptr) release();
      state_ = std::exchange(other.state_, nullptr);
      untold_ = std::exchange(other.untold_, false);
    }
    return *this;
  }
  // Waits, as above, where the operation is in flight.
  ~Request() {
    if (state_ != nullptr) release();
  }

  // One look, which progresses the whole context. True: the operation is done.
  bool test();
  // Until it is done, or its deadline: Error{timeout}.
  Status wait();
  // As test(), but it waits so long for the end. False: not yet, and nothing has changed.
  bool wait_for(std::chrono::milliseconds limit);
  // Takes a receive back that no message has come for yet; of a sendrecv, when its own message has
  // gone. True: it is over, nothing was received, wait() returns an empty Status. False: it is
  // done, or under way, or a send or a collective: wait for it.
  bool cancel();

  // callback() is called once, when the operation has ended, however it did: at once if it has, or
  // by the call, or the progress thread, that finds the end. There it may call nothing of the
  // library, nor wait, and it does not own the last handle of a communicator: it says so to who
  // waits elsewhere, who then takes the result by test() or wait(). It is called also where the
  // request is gone by then. What it throws is logged. At most one for a request in flight:
  // Error{bad_argument}.
  void on_end(std::function<void()> callback);

  // co_await in a coroutine of the program's, whatever its type: what wait() returns or throws when
  // the operation has ended; one that has ended, and an empty request, do not suspend. The
  // coroutine goes on outside of the library, and may call it: in the thread whose call finds the
  // end, when that call returns, or the one of another thread that returns before; or in the
  // progress thread. Until then the request stays where it is. No deadline ends it. A coroutine
  // that is destroyed while it waits is not resumed; a request of its own frame waits then, as
  // ever. What reaches the resuming call as an exception is logged. Error{bad_argument}: another
  // coroutine waits for it, or it has a function.
  RequestAwaiter operator co_await() & noexcept;
  RequestAwaiter operator co_await() && noexcept;

  // The operation is left to itself, and this request is an empty one. Nobody is told its end; an
  // error is logged, and breaks the communicator as ever. Its buffers are the operation's until
  // finish() has returned, or on_end(), which comes before, or a message from a peer tells that it
  // is over. A communicator that goes without finish() ends it; of a send the other ranks are told:
  // Error{aborted}.
  void detach();

  // Started, and neither test() nor wait() has told its end.
  bool is_in_flight() const noexcept;

 private:
  friend struct detail::Access;

  explicit Request(calls::RequestState* state, bool untold) noexcept
      : state_{state}, untold_{untold} {}

  Status finish();  // wait(), by one call for its end and that of the request
  void release() noexcept;

  calls::RequestState* state_ = nullptr;
  bool untold_ = false;  // it was over before there was anything to remember, and nobody knows yet
};

// What co_await asks of a request, which outlives it.
class [[nodiscard]] QPMESH_API RequestAwaiter {
 public:
  // Made by co_await.
  explicit RequestAwaiter(Request& request) noexcept : request_{&request} {}
  RequestAwaiter(const RequestAwaiter&) = delete;
  RequestAwaiter& operator=(const RequestAwaiter&) = delete;
  // Of a coroutine that was not resumed: it will not be.
  ~RequestAwaiter();

  // The steps of co_await: one look, then who is to be resumed, then what wait() returns or throws.
  bool await_ready() { return request_->test(); }
  bool await_suspend(std::coroutine_handle<> waiter);
  Status await_resume() { return request_->wait(); }

 private:
  Request* request_;
  std::shared_ptr<progress::Resumption> resumption_{};  // once it waits
};

inline RequestAwaiter Request::operator co_await() & noexcept { return RequestAwaiter{*this}; }
inline RequestAwaiter Request::operator co_await() && noexcept { return RequestAwaiter{*this}; }

// All of these take requests of several contexts: each of them is progressed, whichever request is
// waited for. wait_all throws the first error in the order of the span after every one has ended.
QPMESH_API void wait_all(std::span<Request> requests);
// One look: whether all are done. Their test() or wait() tells how they ended.
QPMESH_API bool test_all(std::span<Request> requests);
// Index of a request that is done: its test() or wait() tells its end, and from then on it is
// passed over. The search goes on, around, behind the one that was returned last: none starves
// while a thread waits for the requests of one span.
// requests.size() when all ends were told. Error{timeout} when the shortest of their limits has
// passed; all are in flight then as before. Empty span: Error{bad_argument}.
QPMESH_API std::size_t wait_any(std::span<Request> requests);
// The same in one look; nothing: none is done, or all ends were told.
QPMESH_API std::optional<std::size_t> test_any(std::span<Request> requests);
// The indexes of all that are done, in order, and at least of one; none when all ends were told.
// Those whose end is not told before the next call are in it again.
QPMESH_API std::vector<std::size_t> wait_some(std::span<Request> requests);

}  // namespace qpmesh
