// SPDX-License-Identifier: MIT
// What a simulated rank does, written as one coroutine: it waits for conditions that its step
// function looks at.
//
//   Script pings(SimulatedJob* job, int rank) {          // a function, not a lambda: its
//   parameters live in the frame
//     Request request = job->world(rank).barrier_async();
//     co_await until(request);
//     request.wait();                                    // done: returns or throws, never blocks
//   }
#pragma once

#include <coroutine>
#include <cstdint>
#include <exception>
#include <type_traits>
#include <utility>
#include <vector>

#include "calls/pending_operation.hpp"
#include "face/access.hpp"
#include "qpmesh/request.hpp"

namespace qpmesh::test {

using detail::Access;

class Script;

// Looked at before every resumption. Trivially destructible and made by functions: the law of tasks
// holds here too.
struct Condition {
  bool (*holds)(const void* subject, std::int64_t argument);
  const void* subject;
  std::int64_t argument;

  bool operator()() const { return holds(subject, argument); }
};

class Script {
 public:
  struct promise_type {
    Condition condition{[](const void*, std::int64_t) { return true; }, nullptr, 0};
    std::exception_ptr error;

    Script get_return_object() noexcept {
      return Script{std::coroutine_handle<promise_type>::from_promise(*this)};
    }
    std::suspend_always initial_suspend() const noexcept { return {}; }
    std::suspend_always final_suspend() const noexcept { return {}; }
    void unhandled_exception() noexcept { error = std::current_exception(); }
    void return_void() const noexcept {}

    struct Awaiter {
      Condition condition;
      bool await_ready() const { return condition(); }
      void await_suspend(std::coroutine_handle<promise_type> script) const noexcept {
        script.promise().condition = condition;
      }
      void await_resume() const noexcept {}
    };
    Awaiter await_transform(const Condition& awaited) const noexcept { return Awaiter{awaited}; }
  };

  explicit Script(std::coroutine_handle<promise_type> handle) noexcept : handle_{handle} {}
  Script(Script&& other) noexcept : handle_{std::exchange(other.handle_, {})} {}
  Script& operator=(Script&&) = delete;
  ~Script() {
    if (handle_) handle_.destroy();
  }

  bool done() const noexcept { return handle_.done(); }
  bool ready() const { return handle_.promise().condition(); }
  void resume() const { handle_.resume(); }
  const std::exception_ptr& error() const noexcept { return handle_.promise().error; }

 private:
  std::coroutine_handle<promise_type> handle_;
};
static_assert(std::is_trivially_destructible_v<Condition>);

inline bool is_over(const Request& request) noexcept {
  return Access::state(request) == nullptr || Access::state(request)->done();
}

inline Condition until(const Request& request) noexcept {
  constexpr auto holds = [](const void* subject, std::int64_t) {
    return is_over(*static_cast<const Request*>(subject));
  };
  return {holds, &request, 0};
}

inline Condition until_all(const std::vector<Request>& requests) noexcept {
  constexpr auto holds = [](const void* subject, std::int64_t) {
    for (const Request& request : *static_cast<const std::vector<Request>*>(subject)) {
      if (!is_over(request)) return false;
    }
    return true;
  };
  return {holds, &requests, 0};
}

inline Condition until(const bool& flag) noexcept {
  constexpr auto holds = [](const void* subject, std::int64_t) {
    return *static_cast<const bool*>(subject);
  };
  return {holds, &flag, 0};
}

}  // namespace qpmesh::test
