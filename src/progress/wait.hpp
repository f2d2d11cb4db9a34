// SPDX-License-Identifier: MIT
// The one function that waits: spin, yield, sleep. After start-up nothing else blocks.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>

#include "base/atomics.hpp"
#include "base/owned.hpp"
#include "base/system.hpp"
#include "progress/engine.hpp"
#include "progress/waiting_threads.hpp"
#include "qpmesh/deadline.hpp"

namespace qpmesh::progress {

// Looks at what one peer writes: about as many as an answer takes from a core of its own.
inline constexpr int spins_on_own_core = 400;

// How long a wait spins and yields before it sleeps; by usable cores. A sleep costs 35 µs across
// idle cores and 1.7 µs on a shared one, a yield 0.8 µs on a shared one (measured): spin long when
// every rank has a core, briefly when ranks share, and beside a neighbour of another job that has
// taken whole slices: the awaited rank may stand behind the one that spins.
struct WaitPolicy {
  std::uint32_t spins_max = 0;                   // polls before the first yield
  std::uint32_t spins_max_beside_neighbour = 0;  // while yields lose slices
  std::uint32_t yields_max = 0;                  // yields before the first sleep
  std::uint32_t polls_per_yield = 1;

  static WaitPolicy own_core();
  static WaitPolicy shared_core();
  static WaitPolicy beside_protocol();  // of a device, in software, on the ranks' cores
  static WaitPolicy spin_for(std::int64_t spin_us);  // QPMESH_SPIN_US
};

// Whether a wait may be interrupted (base/interrupt.hpp): those of the program, but not those that
// bring an operation to its end.
enum class Asks : std::uint8_t { no, yes };

// How long a wait may last. Short waits do not pay for the clock: it is read after spinning.
struct WaitLimit {
  std::int64_t timeout_ms = 0;  // 0 = for ever
  std::int64_t stall_ms = 0;    // a wait that lasts so long has stalled; 0 = none does
  Deadline begin{};
  Deadline deadline = no_deadline;
  Deadline stall_at = no_deadline;
  Asks asks = Asks::no;
  Deadline ask_at = no_deadline;  // next
  bool started = false;

  // The next call of on_stall, so long after the begin; 0 = never.
  void stall_after(std::int64_t next_stall_ms) noexcept {
    stall_at = next_stall_ms == 0 ? no_deadline : begin + std::chrono::milliseconds{next_stall_ms};
  }
};

// What wakes a sleeper: a peer that published adds to the eventfd when it sees `asleep` set.
struct Doorbell {
  base::Asleep* asleep = nullptr;  // in shared memory; nullptr: nobody can ring
  int eventfd = -1;
};

class Waiter {
 public:
  using Others = std::span<Waiter* const>;

  Waiter(Engine& engine, const base::System& system, WaitPolicy policy, Doorbell doorbell);

  // Another descriptor that ends a sleep when it is readable. Throws Error{no_resource}.
  void watch(int descriptor);

  // ---- for a caller who sleeps by himself ----

  // Readable when a sleep behind arm() would end.
  int descriptor() const noexcept { return epoll_.get(); }
  // How long he may sleep: 0 = there was news. From now on peers ring.
  std::chrono::milliseconds arm();
  // The sleep is over: looks at all that may have ended it. Where there was none, what is slow to
  // look at has its turn by time: a program that sleeps between two calls makes few calls.
  void disarm();

  // ---- where several threads use the context ----

  // From now on they do, each in its turn: begin_turn() before anything else, end_turn() behind it.
  // Throws Error{no_resource}.
  void admit_threads();
  void admit_one_thread() noexcept { threads_.reset(); }  // none but the caller's is left
  // nullptr: one thread uses the context.
  Turn* turn() noexcept { return threads_ == nullptr ? nullptr : &threads_->turn(); }
  void begin_turn() noexcept { threads_->turn().take(); }
  // Who waits learns what the caller has ended, and one of them looks from here on. Behind it the
  // caller gives its turn up.
  void pass_looking_on() noexcept;
  void end_turn() noexcept {
    pass_looking_on();
    threads_->turn().give_up();
  }
  // Waits, within a turn, until done(), which a turn of another thread makes true; sleeps at once
  // where others spin. It looks and sleeps when nobody else does, and no call has ended for some
  // time: a program that calls again and again is served by itself, and peers need not ring.
  template <class Done>
  void stand_in(Done&& done) {
    WaitingThread self{done};
    self.stands_in = true;
    const Looking looking{*this};
    const auto on_stall = [] { return std::int64_t{0}; };
    wait(done, {}, on_stall, {}, &self);
  }

  // ---- waits ----

  // Of the last wait of this thread that ended in vain: was it interrupted, or had its limit
  // passed?
  static bool was_interrupted() noexcept;

  // The application has closed a descriptor that sleeps depend on: they would spin.
  bool descriptor_lost() const noexcept { return descriptor_lost_; }

  // One look of a caller who polls in a loop of its own: a step, and from a row of misses on what a
  // wait does before it sleeps. Reads no clock. True when anything happened.
  bool look() {
    if (engine_.step()) {
      misses_ = 0;
      return true;
    }
    if (++misses_ > policy_.spins_max) [[unlikely]]
      pass_core_on();
    return false;
  }

  // Progresses the whole context until done() or the limit; false: the limit passed first, or it
  // was interrupted. done is asked after every step, in a turn of whichever thread; on_stall when
  // the limit's stall time has come, and again so many ms after the begin as it returns. The
  // others' contexts are progressed and wake the sleeper, too.
  template <class Done, class OnStall = decltype([] { return std::int64_t{0}; })>
  bool wait_until(Done&& done, WaitLimit limit, OnStall&& on_stall = {}, Others others = {}) {
    if (threads_ == nullptr || !others.empty()) return wait(done, limit, on_stall, others, nullptr);
    WaitingThread self{done};
    const Looking looking{*this};
    return wait(done, limit, on_stall, others, &self);
  }

 private:
  // Other traffic does not stop the clock, nor the news of deaths.
  static constexpr std::uint32_t steps_between_looks = 4096;

  // Where threads hand the turn on, each of these takes microseconds.
  static constexpr std::uint32_t turns_between_looks = 64;

  enum class Passed : std::uint8_t { on, stalled, expired, interrupted };

  // One of the threads that wait: nobody rings for a sleeper meanwhile.
  class Looking {
   public:
    explicit Looking(Waiter& waiter) noexcept : waiter_{waiter} { waiter_.begin_looking(); }
    ~Looking() { waiter_.threads_->end_looking(); }
    Looking(const Looking&) = delete;
    Looking& operator=(const Looking&) = delete;

   private:
    Waiter& waiter_;
  };

  // self: nullptr where one thread uses the context, or others are waited for, too.
  template <class Done, class OnStall>
  bool wait(Done& done, WaitLimit limit, OnStall& on_stall, Others others, WaitingThread* self) {
    std::uint32_t steps = 0;
    std::uint32_t turns = 0;
    for (std::uint32_t idle = 0; !done();) {
      Passed passed = Passed::on;
      if (!step(others)) {
        passed = pass_time(++idle, limit, others, self);
      } else {
        idle = 0;
        if (++steps % steps_between_looks == 0) {
          poll_slow(others);
          passed = look_at_clock(limit, system_.now());
        }
      }
      if (self != nullptr || !others.empty()) [[unlikely]] {
        // What other threads' calls find is no reason to look at the clock later.
        if (passed == Passed::on && ++turns % turns_between_looks == 0)
          passed = look_at_clock(limit, system_.now());
        give_way(others, idle == 0, self);
      }
      switch (passed) {
        case Passed::on: break;
        case Passed::stalled: limit.stall_after(on_stall()); break;
        case Passed::expired:
        case Passed::interrupted: note_vain_end(passed == Passed::interrupted); return done();
      }
    }
    return true;
  }
  bool step(Others others) {
    bool worked = engine_.step();
    for (Waiter* const other : others) worked |= other->engine_.step();
    return worked;
  }
  void poll_slow(Others others) {
    engine_.poll_slow();
    for (Waiter* const other : others) other->engine_.poll_slow();
  }
  Passed pass_time(std::uint32_t idle, WaitLimit& limit, Others others, WaitingThread* self);
  void pass_core_on() noexcept;
  std::uint32_t spins_max() const noexcept {
    return sleeps_for_yield_ > 1 ? policy_.spins_max_beside_neighbour : policy_.spins_max;
  }
  static Passed look_at_clock(WaitLimit& limit, Deadline now);
  static void note_vain_end(bool was_interrupted) noexcept;
  static Deadline sleep_end(const WaitLimit& limit) noexcept;
  void sleep(const WaitLimit& limit, Others others);
  void sleep_among_threads(const WaitLimit& limit, WaitingThread& self);
  bool arm_sleeper();  // true: looks still find something
  void begin_looking() noexcept;
  bool shares_turns(Others others) const noexcept;
  void take_turns(Others others);
  void give_turns_up(Others others);
  void give_way(Others others, bool news, WaitingThread* self);
  void yield_core(WaitingThread* self) noexcept;
  // From now on it is woken. Returns how long the sleep may last.
  std::chrono::microseconds fall_asleep() noexcept;
  // False: a descriptor is lost.
  bool block(std::chrono::microseconds length, Others others) const;
  void wake_up(bool rung) noexcept;

  Engine& engine_;
  const base::System& system_;
  WaitPolicy policy_;
  Doorbell doorbell_;
  base::UniqueFd epoll_;
  std::unique_ptr<WaitingThreads> threads_;  // nullptr: one thread uses the context
  bool armed_ = false;
  Deadline slow_look_at_{};  // of disarm()
  bool descriptor_lost_ = false;
  std::uint32_t misses_ = 0;            // looks in a row that found nothing
  std::uint32_t sleeps_left_ = 0;       // before the next yield: a neighbour takes whole slices
  std::uint32_t sleeps_for_yield_ = 1;  // when the next yield loses one; 1: none does
};

}  // namespace qpmesh::progress
