// SPDX-License-Identifier: MIT
// The threads that wait inside a context that several threads use.
//
// Each looks: it polls the engine, and gives way between two looks to those who ask for a turn.
// From a row of misses on one of them sleeps in the context's epoll, and the others are parked.
// Whoever looks wakes those whose waits it has ended. Those that are parked rely on one that looks
// or sleeps: who was the last to look passes that on when it goes out.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

#include "base/owned.hpp"
#include "base/system.hpp"
#include "progress/turn.hpp"
#include "qpmesh/deadline.hpp"

namespace qpmesh::progress {

// One that waits, in its own frame. Others ask whether it is done, too: once it is, it stays so.
// Only the coroutines that the progress thread waits for may go with another call meanwhile: it
// wakes in vain then.
struct WaitingThread {
  template <class Done>
  explicit WaitingThread(Done& ends) noexcept
      : is_done{[](void* of) -> bool { return (*static_cast<Done*>(of))(); }},
        condition{const_cast<void*>(static_cast<const void*>(&ends))} {}

  bool done() const { return is_done(condition); }

  bool (*is_done)(void*);
  void* condition;
  bool stands_in = false;  // it looks and sleeps when the others have been away for some time
  bool naps = false;       // parked, and back by itself soon
  bool woken = false;      // from where it was parked
  std::condition_variable bell{};
};

// Touched by the thread whose turn it is.
class WaitingThreads {
 public:
  explicit WaitingThreads(const base::System& system);  // Throws Error{no_resource}

  Turn& turn() noexcept { return turn_; }
  // Readable while the sleeper is rung for.
  int descriptor() const noexcept { return bell_.get(); }

  bool anybody_looks() const noexcept { return looking_ > 0; }
  bool others_look() const noexcept { return looking_ > 1; }
  void begin_looking() noexcept { ++looking_; }
  void end_looking() noexcept { --looking_; }

  // Calls have ended since the last question.
  void count_call() noexcept { calls_ended_ = true; }
  bool take_calls() noexcept { return std::exchange(calls_ended_, false); }

  bool has_sleeper() const noexcept { return sleeper_ != nullptr; }
  void begin_sleep(WaitingThread& thread, std::chrono::microseconds length) noexcept {
    sleeper_ = &thread;
    sleep_length_ = length;
  }
  void end_sleep() noexcept;
  // It must look by then, and may have meant to sleep longer.
  void sleep_at_most(std::chrono::microseconds length) noexcept {
    if (length < sleep_length_) ring();
  }
  // The sleeper looks, whatever it waits for.
  void ring() noexcept;

  // One that looks gives the turn up, until another thread has ended its wait, or asks it to look
  // on, or the time has come.
  void park(WaitingThread& thread, Deadline until);
  // Those whose waits have ended.
  void wake_done() noexcept;
  // Of those that are parked, and do not only nap, one goes on looking.
  void wake_one() noexcept;

 private:
  void wake(std::size_t index) noexcept;

  Turn turn_;
  int looking_ = 0;  // with those that were woken and have not come to their turn yet
  WaitingThread* sleeper_ = nullptr;
  std::chrono::microseconds sleep_length_{};
  bool rung_ = false;
  bool calls_ended_ = false;
  base::UniqueFd bell_;
  std::vector<WaitingThread*> parked_;
  std::mutex parking_;  // guards WaitingThread::woken while its thread is parked
};

}  // namespace qpmesh::progress
