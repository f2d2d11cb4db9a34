// SPDX-License-Identifier: MIT
// The threads that carry on what the program's own threads have left.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace qpmesh_torch {

class Flight;
class Group;

// Operations end where somebody waits for them: that costs nothing extra, and is how most are used.
// What is in flight while nobody waits is found here within two ticks, and carried on until it has
// ended or somebody waits: a long computation holds up no peer. Where a future is to be completed,
// or a Work has gone, it is told at once. Sleeps while nothing is done; one for a process.
// What hangs on a future may wait for another one: while a thread tells of an end, the next one has
// the loop.
class Background {
 public:
  // A child that was forked off has its own. It is never destroyed: a flight may be the last to
  // hold a group, and ends here.
  static Background& of_process();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  // From here on it looks after the group.
  void add(const std::shared_ptr<Group>& group);
  // An operation has begun.
  void began() noexcept {
    if (is_parked_.load()) wake();
  }
  // Lets the flight go on when ended() tells that its requests have ended, which is the end of
  // most, and settles it when the deadline is over: nobody else may be waiting.
  void watch(std::shared_ptr<Flight> flight, std::chrono::steady_clock::time_point deadline);
  // Called inside a call of the library: it takes no lock that is held while one is made.
  void ended(std::shared_ptr<Flight> flight);
  // Before Python ends: its groups are left. What has not ended then stays as it is, for ever.
  void stop();

 private:
  using Clock = std::chrono::steady_clock;
  struct Watched {
    std::shared_ptr<Flight> flight;
    Clock::time_point deadline;
  };
  struct Due {
    std::shared_ptr<Flight> flight;  // null: none
    bool is_late = false;
  };
  struct Member {
    std::weak_ptr<Group> group;
    bool was_left_alone = false;  // at the last look
  };

  Background();
  void wake() noexcept;
  void run();
  void start_thread();
  // Both let go of the lock meanwhile; false: all is over. The first gives the loop away, and takes
  // it again when it is free.
  bool settle(std::unique_lock<std::mutex>& lock, Due due);
  bool take_loop(std::unique_lock<std::mutex>& lock);
  // Holding mutex_, as all below.
  Due next_due();
  using Groups = std::vector<std::shared_ptr<Group>>;
  // The groups that there are. They are let go without mutex_: the last to hold one calls the
  // library.
  Groups groups();
  // Of those, in which something is in flight and nobody waits, for longer than a moment.
  Groups left_alone(const Groups& groups);
  int ms_to_deadline() const;
  // Without mutex_: one step of each, then asleep until there is more to do, so long at most.
  void carry_on(const Groups& groups, int limit_ms);

  const int bell_;  // an eventfd
  std::atomic<bool> is_parked_ = true;
  std::mutex mutex_;
  std::vector<Member> members_;
  std::vector<Watched> watched_;
  std::deque<std::shared_ptr<Flight>> ended_;
  bool stops_ = false;
  std::vector<std::thread> threads_;  // as many as were ever telling at a time, and one
  std::condition_variable loop_is_free_;
  bool has_loop_ = false;   // one of them
  bool has_ended_ = false;  // the loop, for ever
  int settling_ = 0;
  int idle_ = 0;  // threads that wait for the loop, or are about to
};

}  // namespace qpmesh_torch
