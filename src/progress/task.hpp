// SPDX-License-Identifier: MIT
// The coroutine that every collective and every set-up step is written as.
//
// The law of tasks:
// - Lazy: a task runs when it is awaited or handed to Engine::start. The function that makes it may
//   do its beginning, or all of it: then there is nothing left to run.
// - It ends only by being resumed: a failure resumes each parked awaitable, which then throws in
//   the coroutine.
// - Nothing is resumed from inside await_suspend: it records who runs next, and one loop in the
//   engine resumes. Symmetric transfer overflows the stack at -O0 and under sanitizers with gcc 12.
// - Awaitables are trivially destructible and made by functions, never by braces inside an await
//   expression: gcc 12 destroys a braced temporary there twice.
#pragma once

#include <cassert>
#include <coroutine>
#include <exception>
#include <utility>

#include "progress/frame_pool.hpp"
#include "qpmesh/error.hpp"

namespace qpmesh::progress {

class Engine;
class Task;
struct TaskPromise;

// Several operations awaited together: the waiter is resumed when the last one is done.
struct Join {
  int outstanding = 0;
  TaskPromise* waiter = nullptr;  // set when the coroutine parks; nobody resumes before
};

// Something in flight that somebody waits for. Owned by whoever started it, at a fixed address,
// until done. Trivially destructible: it may live in an awaitable.
struct Operation {
  bool done = false;
  const Error* failure = nullptr;  // owned by the communicator (or context) that failed
  Join* join = nullptr;            // nullptr: somebody polls done
};

// A root task's result, for Engine::start.
struct TaskOperation : Operation {
  std::exception_ptr error;  // what the task threw; null when it returned
};

struct TaskPromise {
  Engine* engine = nullptr;             // set when the task is first run
  TaskPromise* continuation = nullptr;  // the task that awaits this one
  TaskPromise* next_ready = nullptr;    // the engine's list
  TaskOperation* root = nullptr;
  std::exception_ptr error;

  static void* operator new(std::size_t bytes) { return FramePool::allocate_frame(bytes); }
  static void operator delete(void* frame) noexcept { FramePool::free(frame); }

  Task get_return_object() noexcept;
  std::suspend_always initial_suspend() const noexcept { return {}; }
  struct FinalAwaiter {
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<TaskPromise> finished) const noexcept;
    void await_resume() const noexcept {}
  };
  FinalAwaiter final_suspend() const noexcept { return {}; }
  void unhandled_exception() noexcept { error = std::current_exception(); }
  void return_void() const noexcept {}
};

class [[nodiscard]] Task {
 public:
  using promise_type = TaskPromise;
  using Handle = std::coroutine_handle<TaskPromise>;

  explicit Task(Handle handle) noexcept : handle_{handle} {}
  // Of a function that has done it all.
  static Task ended() noexcept { return Task{Handle{}}; }
  Task(Task&& other) noexcept : handle_{std::exchange(other.handle_, {})} {}
  Task& operator=(Task&&) = delete;
  ~Task() {
    // Never started, or ended: a parked frame may be referenced by a ring, a peer list or a device.
    assert(!handle_ || handle_.done() || handle_.promise().engine == nullptr);
    if (handle_) handle_.destroy();
  }

  struct Awaiter {
    Handle child;
    bool await_ready() const noexcept { return !child; }  // has ended
    void await_suspend(Handle parent) const noexcept;
    void await_resume() const {
      if (child && child.promise().error) std::rethrow_exception(child.promise().error);
    }
  };
  Awaiter operator co_await() const& noexcept { return Awaiter{handle_}; }

  bool has_ended() const noexcept { return !handle_; }
  Handle release() noexcept { return std::exchange(handle_, {}); }

 private:
  Handle handle_;
};
static_assert(std::is_trivially_destructible_v<Task::Awaiter>);
static_assert(std::is_trivially_destructible_v<TaskPromise::FinalAwaiter>);

// co_await all_ended(join): until all operations have ended that were started with this join.
struct AllEnded {
  Join& join;
  bool await_ready() const noexcept { return join.outstanding == 0; }
  void await_suspend(Task::Handle waiter) const noexcept { join.waiter = &waiter.promise(); }
  void await_resume() const noexcept {}
};
static_assert(std::is_trivially_destructible_v<AllEnded>);
inline AllEnded all_ended(Join& join) noexcept { return AllEnded{join}; }

inline Task TaskPromise::get_return_object() noexcept {
  return Task{Task::Handle::from_promise(*this)};
}

}  // namespace qpmesh::progress

#include "progress/engine.hpp"  // IWYU pragma: export
