// SPDX-License-Identifier: MIT
// One engine per context drives everything: it polls for news and resumes what became ready.
#pragma once

#include <cassert>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "progress/frame_pool.hpp"
#include "progress/task.hpp"

namespace qpmesh::progress {

// Something that has news now and then.
class Pollable {
 public:
  virtual ~Pollable() = default;
  virtual bool poll() = 0;  // true when it did something; never blocks
  // With the engine's slow source: what costs calls of the system. Ends no wait.
  virtual void poll_costly() noexcept {}
  // Before a sleep: news from here on end it, for those that came before it is polled once more.
  // Returns how long the sleep may last.
  virtual std::chrono::microseconds request_notification() noexcept {
    return std::chrono::microseconds::max();
  }
  virtual void end_notification() noexcept {}  // the sleep is over, or there was none
};

class Engine {
 public:
  Engine() = default;
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // fast is polled at every step. slow (system calls) is polled when slow_idle_steps steps in a row
  // found nothing, and every slow_steps_max steps in any case.
  void set_sources(Pollable* fast, Pollable* slow) noexcept {
    fast_ = fast;
    slow_ = slow;
  }

  // One more source, polled at every step, as long as something is awaited from it; asked before a
  // sleep, too.
  void poll_also(Pollable& source) { more_.push_back(&source); }
  void poll_no_longer(Pollable& source) noexcept { std::erase(more_, &source); }

  // Runs a task until it first waits; one that a task starts runs when that one waits, in the order
  // of the starts. operation is done when the task ends, whose frame belongs to
  // the engine until then. make() returns the Task: its frame comes from this engine's pool. What
  // it throws is what the task ended with, too.
  template <class Make>
  void start(TaskOperation& operation, Make&& make) {
    const FramePool::Scope scope{pool_};
    try {
      Task task = std::forward<Make>(make)();
      if (!task.has_ended()) return start_task(operation, std::move(task));
    } catch (...) {
      operation.error = std::current_exception();
      ++failed_tasks_;
    }
    complete(operation);
  }

  // An operation has ended: whoever awaits it becomes ready.
  void complete(Operation& operation, const Error* failure = nullptr) noexcept {
    operation.failure = failure;
    operation.done = true;
    ++completions_;
    if (Join* const join = operation.join;
        join != nullptr && --join->outstanding == 0 && join->waiter != nullptr) {
      ready(*std::exchange(join->waiter, nullptr));
    }
  }

  void ready(TaskPromise& promise) noexcept;

  bool step();       // polls, then resumes; true when anything happened
  bool poll_fast();  // all but the slow source; resumes nothing
  void poll_slow();  // now
  // Of all sources but the fast one.
  std::chrono::microseconds request_notification() noexcept;
  void end_notification() noexcept;
  bool run_ready();  // true when anything ran
  // Of a call that may be a task's: then the loop that runs the task comes to it.
  void run_ready_soon() {
    if (!running_) run_ready();
  }

  // How many operations have ended. While it stays the same, none that was looked at is done.
  std::uint64_t completions() const noexcept { return completions_; }

  // How many tasks have ended by an error.
  std::uint64_t failed_tasks() const noexcept { return failed_tasks_; }

  FramePool& pool() noexcept { return pool_; }

 private:
  friend struct TaskPromise::FinalAwaiter;
  friend struct Task::Awaiter;
  static constexpr std::uint32_t slow_idle_steps = 1024;
  static constexpr std::uint32_t slow_steps_max = 1U << 20;

  // From one task to another, without the queue's way: runs before everything that is ready.
  void run_next(TaskPromise& promise) noexcept { next_ = &promise; }
  void start_task(TaskOperation& operation, Task task);
  void run_all();  // what is ready; within a Scope of the pool
  void finish_root(TaskPromise& promise) noexcept {
    assert(ended_root_ == nullptr);
    ended_root_ = &promise;
  }

  FramePool pool_;
  Pollable* fast_ = nullptr;
  Pollable* slow_ = nullptr;
  std::vector<Pollable*> more_;
  TaskPromise* next_ = nullptr;         // set by a task that has just stopped for another one
  TaskPromise* first_ready_ = nullptr;  // FIFO, linked through the promises: growing costs nothing
  TaskPromise* last_ready_ = nullptr;
  TaskPromise* ended_root_ = nullptr;  // destroyed by the loop, after its last suspension
  std::uint32_t idle_steps_ = 0;
  std::uint32_t steps_since_slow_ = 0;
  std::size_t tasks_in_flight_ = 0;
  bool running_ = false;
  std::uint64_t completions_ = 0;
  std::uint64_t failed_tasks_ = 0;
  std::uint64_t completions_told_ = 0;  // by step(): whoever waits must look before it sleeps
};

// Here, to be inlined: a step of a task is these two and the engine's loop.
inline void TaskPromise::FinalAwaiter::await_suspend(
    std::coroutine_handle<TaskPromise> finished) const noexcept {
  TaskPromise& promise = finished.promise();
  if (promise.continuation != nullptr) {
    promise.engine->run_next(*promise.continuation);
  } else {
    promise.engine->finish_root(promise);
  }
}

inline void Task::Awaiter::await_suspend(Handle parent) const noexcept {
  TaskPromise& promise = child.promise();
  promise.engine = parent.promise().engine;
  promise.continuation = &parent.promise();
  promise.engine->run_next(promise);
}

}  // namespace qpmesh::progress
