// SPDX-License-Identifier: MIT
// The one function that waits: what ends a wait whose own operation makes no progress.
#include <gtest/gtest.h>

#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "base/owned.hpp"
#include "base/system.hpp"
#include "progress/engine.hpp"
#include "progress/wait.hpp"
#include "qpmesh/interrupt.hpp"

namespace {

using namespace qpmesh;
using progress::WaitPolicy;

// Time passes only where somebody looks at the clock.
class TickingClock final : public base::System {
 public:
  Deadline now() const noexcept override { return Deadline{std::chrono::milliseconds{++looks_}}; }
  std::int64_t looks() const noexcept { return looks_; }

 private:
  mutable std::int64_t looks_ = 0;
};

struct Source final : progress::Pollable {
  explicit Source(bool has_news) : always_has_news{has_news} {}
  bool always_has_news;
  std::int64_t polls = 0;

  bool poll() override {
    // A wait that never ends is the failure that these tests are about.
    if (++polls == 10'000'000)
      throw std::runtime_error{"the wait has not ended after 10 million steps"};
    return always_has_news;
  }
};

class WaitWith : public testing::TestWithParam<WaitPolicy> {};
INSTANTIATE_TEST_SUITE_P(every_policy, WaitWith,
                         testing::Values(WaitPolicy::own_core(), WaitPolicy::shared_core(),
                                         WaitPolicy::spin_for(50), WaitPolicy{}));

TEST_P(WaitWith, ends_at_its_deadline_and_warns_before_though_others_always_have_traffic) {
  TickingClock clock;
  progress::Engine engine;
  Source traffic{true};
  Source control{false};
  engine.set_sources(&traffic, &control);
  progress::Waiter waiter{engine, clock, GetParam(), {}};
  int warnings = 0;
  const bool done = waiter.wait_until([] { return false; }, {.timeout_ms = 20, .stall_ms = 10},
                                      [&] { return ++warnings, 0; });
  EXPECT_FALSE(done);
  EXPECT_EQ(warnings, 1);
  EXPECT_EQ(clock.looks(), 21);
  EXPECT_GE(control.polls, 20) << "news of deaths come that way";
}

TEST_P(WaitWith, calls_again_as_late_as_it_was_told_while_it_stalls) {
  TickingClock clock;
  progress::Engine engine;
  Source traffic{true};
  engine.set_sources(&traffic, nullptr);
  progress::Waiter waiter{engine, clock, GetParam(), {}};
  std::vector<std::int64_t> calls;
  const auto on_stall = [&] {
    calls.push_back(clock.looks() - 1);  // the wait began at the first look
    return calls.size() < 3 ? 2 * calls.back() : 0;
  };
  EXPECT_FALSE(
      waiter.wait_until([] { return false; }, {.timeout_ms = 100, .stall_ms = 5}, on_stall));
  EXPECT_EQ(calls, (std::vector<std::int64_t>{5, 10, 20}));
}

TEST_P(WaitWith, is_interrupted_at_once_behind_one_that_was_whatever_ended_between) {
  TickingClock clock;
  progress::Engine engine;
  Source traffic{true};
  engine.set_sources(&traffic, nullptr);
  progress::Waiter waiter{engine, clock, GetParam(), {}};
  const auto never = [] { return false; };
  const auto looks_of = [&](progress::WaitLimit limit) {
    const std::int64_t before = clock.looks();
    EXPECT_FALSE(waiter.wait_until(never, limit));
    return clock.looks() - before;
  };
  set_interrupt_check([]() noexcept { return true; });
  EXPECT_GE(looks_of({.timeout_ms = 1'000, .asks = progress::Asks::yes}), 50);
  EXPECT_TRUE(progress::Waiter::was_interrupted());
  looks_of({.timeout_ms = 5, .asks = progress::Asks::no});
  EXPECT_FALSE(progress::Waiter::was_interrupted());
  EXPECT_LT(looks_of({.timeout_ms = 1'000, .asks = progress::Asks::yes}), 5);
  EXPECT_TRUE(progress::Waiter::was_interrupted());
  set_interrupt_check(nullptr);
}

// A context that is rung for just when everybody falls asleep.
struct Sleeper final : progress::Pollable {
  explicit Sleeper(bool is_rung) : rung{is_rung} {}
  bool rung;
  bool woken = false;
  base::Asleep asleep{};
  base::UniqueFd bell{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};

  bool poll() override { return false; }
  std::chrono::microseconds request_notification() noexcept override {
    EXPECT_TRUE(asleep.is_set());
    const std::uint64_t one = 1;
    if (rung && !std::exchange(woken, true)) {
      EXPECT_EQ(::write(bell.get(), &one, sizeof one), ssize_t{sizeof one});
    }
    return std::chrono::microseconds::max();
  }
};

TEST(Wait, is_woken_by_who_rings_for_another_context) {
  const base::System system;
  std::array<progress::Engine, 3> engines;
  std::array<Sleeper, 3> sleepers{Sleeper{false}, Sleeper{false}, Sleeper{true}};
  std::vector<std::unique_ptr<progress::Waiter>> waiters;
  for (std::size_t i = 0; i < engines.size(); ++i) {
    waiters.push_back(std::make_unique<progress::Waiter>(
        engines[i], system, WaitPolicy{},
        progress::Doorbell{&sleepers[i].asleep, sleepers[i].bell.get()}));
    engines[i].set_sources(nullptr, &sleepers[i]);
  }
  const std::vector<progress::Waiter*> others{waiters[1].get(), waiters[2].get()};
  const auto begin = system.now();
  EXPECT_TRUE(waiters[0]->wait_until([&] { return sleepers[2].woken; }, {.timeout_ms = 20'000},
                                     [] { return 0; }, others));
  EXPECT_LT(system.now() - begin, std::chrono::milliseconds{800})
      << "a sleep that nobody ends lasts a second";
  for (const Sleeper& sleeper : sleepers) EXPECT_FALSE(sleeper.asleep.is_set());
}

TEST_P(WaitWith, does_not_read_the_clock_while_it_is_done_soon) {
  TickingClock clock;
  progress::Engine engine;
  Source traffic{true};
  engine.set_sources(&traffic, nullptr);
  progress::Waiter waiter{engine, clock, GetParam(), {}};
  const bool done = waiter.wait_until([&] { return traffic.polls == 1000; }, {.timeout_ms = 20});
  EXPECT_TRUE(done);
  EXPECT_EQ(clock.looks(), 0);
}

// Slices of a millisecond are lost at so many looks at the clock, the first ones.
class ClockOfLostSlices final : public base::System {
 public:
  explicit ClockOfLostSlices(int looks) : looks_left_{looks} {}
  Deadline now() const noexcept override {
    if (looks_left_ > 0) {
      --looks_left_;
      ++ms_;
    }
    return Deadline{std::chrono::milliseconds{ms_}};
  }

 private:
  mutable int looks_left_;
  mutable std::int64_t ms_ = 0;
};

struct SleepCount final : progress::Pollable {
  int sleeps = 0;
  bool poll() override { return false; }
  std::chrono::microseconds request_notification() noexcept override {
    ++sleeps;
    return std::chrono::microseconds{0};
  }
};

int sleeps_where_slices_are_lost(int looks) {
  const ClockOfLostSlices clock{looks};
  progress::Engine engine;
  Source quiet{false};
  SleepCount count;
  engine.set_sources(&quiet, &count);
  progress::Waiter waiter{engine, clock, {.yields_max = 1'000'000}, {}};
  waiter.wait_until([&] { return quiet.polls >= 1000; }, {});
  return count.sleeps;
}

TEST(Wait,
     sleeps_once_for_a_slice_that_was_lost_by_chance_and_mostly_beside_a_neighbour_that_stays) {
  EXPECT_EQ(sleeps_where_slices_are_lost(0), 0);
  EXPECT_EQ(sleeps_where_slices_are_lost(2), 1);
  EXPECT_GT(sleeps_where_slices_are_lost(1'000'000), 450) << "each with two polls";
}

// While a neighbour is there each look finds that it has had the core for a millisecond.
class ClockBesideNeighbour final : public base::System {
 public:
  bool is_there = false;
  Deadline now() const noexcept override {
    ++looks_;
    if (is_there) ++ms_;
    return Deadline{std::chrono::milliseconds{ms_}};
  }
  int looks() const noexcept { return looks_; }

 private:
  mutable int looks_ = 0;
  mutable std::int64_t ms_ = 0;
};

TEST(Wait, spins_briefly_beside_a_neighbour_that_takes_slices_and_long_again_when_it_is_gone) {
  ClockBesideNeighbour clock;
  progress::Engine engine;
  Source quiet{false};
  SleepCount count;
  engine.set_sources(&quiet, &count);
  progress::Waiter waiter{engine,
                          clock,
                          {.spins_max = 10'000,
                           .spins_max_beside_neighbour = 100,
                           .yields_max = 1'000'000,
                           .polls_per_yield = 1},
                          {}};
  // Of a wait that ends before a long spin does: how often it looked at the clock.
  const auto looks_of_wait = [&] {
    const int before = clock.looks();
    const std::int64_t until = quiet.polls + 5'000;
    waiter.wait_until([&] { return quiet.polls >= until; }, {});
    return clock.looks() - before;
  };
  EXPECT_EQ(looks_of_wait(), 0);
  clock.is_there = true;
  const std::int64_t until = quiet.polls + 12'000;
  waiter.wait_until([&] { return quiet.polls >= until; }, {});
  EXPECT_GT(looks_of_wait(), 2'000) << "it sleeps behind each short spin";
  EXPECT_GT(looks_of_wait(), 2'000);
  clock.is_there = false;
  EXPECT_GT(looks_of_wait(), 0);
  EXPECT_EQ(looks_of_wait(), 0);
}

TEST_P(WaitWith, reads_no_clock_for_a_caller_who_polls) {
  TickingClock clock;
  progress::Engine engine;
  Source quiet{false};
  engine.set_sources(&quiet, nullptr);
  progress::Waiter waiter{engine, clock, GetParam(), {}};
  for (int look = 0; look < 100'000; ++look) EXPECT_FALSE(waiter.look());
  EXPECT_EQ(quiet.polls, 100'000);
  EXPECT_EQ(clock.looks(), 0);
}

// Two threads on one core take turns, each polling until the other one's turn is over.
struct Turns final : progress::Pollable {
  Turns(std::atomic<int>& word, int parity) : turn{word}, own_parity{parity} {}
  std::atomic<int>& turn;
  int own_parity;
  std::int64_t polls = 0;

  bool poll() override {
    ++polls;
    if (turn.load() % 2 != own_parity) return false;
    turn.fetch_add(1);
    return true;
  }
};

TEST(Wait, gives_the_core_to_its_neighbour_when_a_caller_polls) {
  constexpr int turns = 200;
  const base::System system;
  std::atomic<int> turn{0};
  std::array<Turns, 2> sources{Turns{turn, 0}, Turns{turn, 1}};
  const auto take_turns = [&](Turns& source) {
    cpu_set_t all;
    CPU_ZERO(&all);
    ASSERT_EQ(::sched_getaffinity(0, sizeof all, &all), 0);
    cpu_set_t one;
    CPU_ZERO(&one);
    for (std::size_t core = 0; CPU_COUNT(&one) == 0; ++core) {
      if (CPU_ISSET(core, &all)) CPU_SET(core, &one);
    }
    ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
    progress::Engine engine;
    engine.set_sources(&source, nullptr);
    progress::Waiter waiter{engine, system, WaitPolicy::shared_core(), {}};
    while (turn.load() < turns) waiter.look();
  };
  std::thread other{take_turns, std::ref(sources[1])};
  std::thread first{take_turns, std::ref(sources[0])};
  first.join();
  other.join();
  // Who keeps the core polls through its whole time slice: tens of thousands of looks each turn.
  EXPECT_LT(sources[0].polls + sources[1].polls, std::int64_t{turns} * 1000);
}

}  // namespace
