// SPDX-License-Identifier: MIT
// The law of tasks: depth, failure, memory and order of what the engine runs.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "collectives/group.hpp"
#include "progress/task.hpp"
#include "qpmesh/error.hpp"
#include "support/expected_error.hpp"
#include "support/heap.hpp"
#include "support/lone_rank.hpp"

namespace {

using namespace qpmesh;
using progress::Engine;
using progress::Join;
using progress::Operation;
using progress::Task;
using progress::TaskOperation;

// Awaits one operation that somebody else completes.
class Awaited {
 public:
  explicit Awaited(Operation& operation) noexcept : operation_{operation} {}

  class Awaiter {
   public:
    explicit Awaiter(Awaited& awaited) noexcept : awaited_{awaited} {}
    bool await_ready() noexcept {
      if (awaited_.operation_.done) return true;
      awaited_.join_.outstanding = 1;
      awaited_.operation_.join = &awaited_.join_;
      return false;
    }
    void await_suspend(Task::Handle waiter) noexcept { awaited_.join_.waiter = &waiter.promise(); }
    void await_resume() {
      if (awaited_.operation_.failure != nullptr) throw Error{*awaited_.operation_.failure};
    }

   private:
    Awaited& awaited_;
  };
  Awaiter operator co_await() noexcept { return Awaiter{*this}; }

 private:
  Operation& operation_;
  Join join_;
};

static_assert(std::is_trivially_destructible_v<Task::Awaiter>);
static_assert(std::is_trivially_destructible_v<progress::TaskPromise::FinalAwaiter>);
static_assert(std::is_trivially_destructible_v<collectives::Group>);
static_assert(std::is_trivially_destructible_v<collectives::Round<15>::Awaiter>);
static_assert(std::is_trivially_destructible_v<messaging::SendOperation>);
static_assert(std::is_trivially_destructible_v<messaging::ReceiveOperation>);
static_assert(std::is_trivially_destructible_v<TaskOperation> == false,
              "it carries an exception: not for an awaitable");

constexpr int million = 1'000'000;

Task leaf(int& sum) {
  ++sum;
  co_return;
}
Task nested(int depth, int& sum) {
  ++sum;
  if (depth > 1) co_await nested(depth - 1, sum);
  ++sum;
}
Task in_a_row(int count, int& sum) {
  for (int i = 0; i < count; ++i) co_await leaf(sum);
}

TEST(a_task, awaits_a_million_tasks_one_in_another) {
  Engine engine;
  TaskOperation operation;
  int sum = 0;
  engine.start(operation, [&] { return nested(million, sum); });
  EXPECT_TRUE(operation.done);
  EXPECT_FALSE(operation.error);
  EXPECT_EQ(sum, 2 * million);
}

// Does it all before there is a task.
Task done_at_once(int& sum) {
  ++sum;
  return Task::ended();
}
Task throws_at_once() { throw std::runtime_error{"at once"}; }
Task awaits_those_done(int& sum) {
  co_await done_at_once(sum);
  co_await done_at_once(sum);
  try {
    co_await throws_at_once();
  } catch (const std::runtime_error&) {
    ++sum;
  }
}

TEST(a_task, that_its_function_has_done_is_over_alone_and_where_it_is_awaited) {
  Engine engine;
  TaskOperation alone;
  TaskOperation awaited;
  int sum = 0;
  engine.start(alone, [&] { return done_at_once(sum); });
  EXPECT_TRUE(alone.done);
  EXPECT_FALSE(alone.error);
  EXPECT_EQ(sum, 1);
  engine.start(awaited, [&] { return awaits_those_done(sum); });
  EXPECT_TRUE(awaited.done);
  EXPECT_FALSE(awaited.error);
  EXPECT_EQ(sum, 4);
}

TEST(a_task, whose_function_throws_has_ended_with_that) {
  Engine engine;
  TaskOperation operation;
  engine.start(operation, [] { return throws_at_once(); });
  EXPECT_TRUE(operation.done);
  EXPECT_THROW(std::rethrow_exception(operation.error), std::runtime_error);
}

TEST(a_task, awaits_a_million_tasks_in_a_row) {
  Engine engine;
  TaskOperation operation;
  int sum = 0;
  engine.start(operation, [&] { return in_a_row(million, sum); });
  EXPECT_TRUE(operation.done);
  EXPECT_EQ(sum, million);
}

TEST(a_task, does_not_run_before_it_is_started) {
  int sum = 0;
  { const Task never_started = leaf(sum); }
  EXPECT_EQ(sum, 0);
}

Task throw_at(int depth, int& unwound) {
  struct Unwound {
    int& count;
    ~Unwound() { ++count; }
  } guard{unwound};
  if (depth == 0) throw std::runtime_error{"from the bottom"};
  co_await throw_at(depth - 1, unwound);
  ADD_FAILURE() << "went on after the exception at depth " << depth;
}

TEST(an_exception, travels_through_every_nested_await_to_the_root) {
  constexpr int depth = 10'000;
  Engine engine;
  TaskOperation operation;
  int unwound = 0;
  engine.start(operation, [&] { return throw_at(depth, unwound); });
  ASSERT_TRUE(operation.done);
  ASSERT_TRUE(operation.error);
  EXPECT_EQ(unwound, depth + 1);
  try {
    std::rethrow_exception(operation.error);
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "from the bottom");
  }
}

Task survive(int& caught, int& unwound) {
  try {
    co_await throw_at(3, unwound);
  } catch (const std::runtime_error&) {
    ++caught;
  }
  co_await leaf(caught);
}

TEST(an_exception, caught_half_way_lets_the_task_go_on) {
  Engine engine;
  TaskOperation operation;
  int caught = 0;
  int unwound = 0;
  engine.start(operation, [&] { return survive(caught, unwound); });
  EXPECT_TRUE(operation.done);
  EXPECT_FALSE(operation.error);
  EXPECT_EQ(caught, 2);
  EXPECT_EQ(unwound, 4);
}

// Returns what function() took from the heap.
template <class F>
std::uint64_t allocations_of(F&& function) {
  const std::uint64_t before = test::heap_allocations();
  function();
  return test::heap_allocations() - before;
}

TEST(frames, come_from_the_pool_and_a_later_start_allocates_nothing) {
  Engine engine;
  int sum = 0;
  const auto run = [&] {
    for (int i = 0; i < 100; ++i) {
      TaskOperation operation;
      engine.start(operation, [&] { return nested(20, sum); });
    }
  };
  const std::uint64_t cold = allocations_of(run);
  // One per frame that lives at once: the counter counts, and frames are reused from the first run
  // on.
  EXPECT_EQ(cold, 20U);
  EXPECT_EQ(allocations_of(run), 0U);
  EXPECT_EQ(sum, 2 * 2 * 20 * 100);
}

TEST(frame_pool, reuses_memory_of_a_size_class_and_touches_no_other) {
  progress::FramePool pool;
  const auto use = [&](std::size_t bytes) {
    return [&pool, bytes] { progress::FramePool::free(pool.allocate(bytes)); };
  };
  EXPECT_EQ(allocations_of(use(4000)), 1U);
  EXPECT_EQ(allocations_of(use(4096)), 0U);
  EXPECT_EQ(allocations_of(use(2049)), 0U);
  EXPECT_EQ(allocations_of(use(4097)), 1U);
  EXPECT_EQ(allocations_of(use(0)), 1U);
  EXPECT_EQ(allocations_of(use(1024)), 0U);
  void* const block = pool.allocate(300);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % 16, 0U);
  progress::FramePool::free(block);
}

Task await_operation(Operation& operation, std::vector<std::string>& steps) {
  steps.emplace_back("parks");
  Awaited awaited{operation};
  co_await awaited;
  steps.emplace_back("resumed");
}
Task await_below(Operation& operation, std::vector<std::string>& steps) {
  co_await await_operation(operation, steps);
}

TEST(a_parked_task, is_resumed_by_the_loop_and_not_inside_complete) {
  Engine engine;
  TaskOperation task;
  Operation operation;
  std::vector<std::string> steps;
  engine.start(task, [&] { return await_below(operation, steps); });
  EXPECT_FALSE(task.done);
  engine.complete(operation);
  EXPECT_EQ(steps, (std::vector<std::string>{"parks"}));
  EXPECT_TRUE(engine.step());
  EXPECT_EQ(steps, (std::vector<std::string>{"parks", "resumed"}));
  EXPECT_TRUE(task.done);
  EXPECT_FALSE(task.error);
}

TEST(a_parked_task, is_resumed_by_a_failure_and_throws_inside) {
  Engine engine;
  TaskOperation task;
  Operation operation;
  std::vector<std::string> steps;
  engine.start(task, [&] { return await_below(operation, steps); });
  const Error failure{
      {.code = ErrorCode::peer_dead, .peer = 3, .operation = "allreduce", .cause = "it is gone"}};
  engine.complete(operation, &failure);
  EXPECT_TRUE(engine.run_ready());
  ASSERT_TRUE(task.done);
  EXPECT_EQ(steps, (std::vector<std::string>{"parks"}));
  try {
    ASSERT_TRUE(task.error);
    std::rethrow_exception(task.error);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::peer_dead);
    EXPECT_EQ(error.peer(), 3);
    EXPECT_EQ(error.operation(), "allreduce");
    EXPECT_EQ(error.cause(), "it is gone");
  }
}

Task start_another(Engine& engine, TaskOperation& other, int& sum,
                   std::vector<std::string>& steps) {
  steps.emplace_back("starts");
  engine.start(other, [&] { return leaf(sum); });
  EXPECT_FALSE(other.done);  // the loop that runs us comes to it
  steps.emplace_back("goes on");
  Awaited awaited{other};
  co_await awaited;
  steps.emplace_back("has awaited it");
}

TEST(engine_start, from_within_a_running_task_runs_the_new_task_in_the_same_loop) {
  Engine engine;
  TaskOperation outer;
  TaskOperation inner;
  int sum = 0;
  std::vector<std::string> steps;
  engine.start(outer, [&] { return start_another(engine, inner, sum, steps); });
  EXPECT_TRUE(inner.done);
  EXPECT_TRUE(outer.done);
  EXPECT_EQ(sum, 1);
  EXPECT_EQ(steps, (std::vector<std::string>{"starts", "goes on", "has awaited it"}));
}

struct CountingSource final : progress::Pollable {
  int polls = 0;
  int costly_polls = 0;
  std::chrono::microseconds sleep_max = std::chrono::microseconds::max();
  bool poll() override {
    ++polls;
    return false;
  }
  void poll_costly() noexcept override { ++costly_polls; }
  std::chrono::microseconds request_notification() noexcept override { return sleep_max; }
};

TEST(engine, asks_what_is_awaited_beside_its_slow_source) {
  using std::chrono::microseconds;
  Engine engine;
  CountingSource slow;
  CountingSource awaited;
  CountingSource other;
  engine.set_sources(nullptr, &slow);
  EXPECT_EQ(engine.request_notification(), microseconds::max());
  slow.sleep_max = microseconds{300};
  awaited.sleep_max = microseconds{20};
  engine.poll_also(awaited);
  engine.poll_also(other);
  EXPECT_EQ(engine.request_notification(), microseconds{20});
  engine.poll_slow();
  EXPECT_EQ(awaited.costly_polls, 1);
  EXPECT_EQ(other.costly_polls, 1);
  engine.poll_no_longer(awaited);
  EXPECT_EQ(engine.request_notification(), microseconds{300});
  engine.poll_slow();
  EXPECT_EQ(awaited.costly_polls, 1);
  EXPECT_EQ(other.costly_polls, 2);
}

TEST(engine_step, polls_the_slow_source_only_after_many_idle_steps) {
  Engine engine;
  CountingSource fast;
  CountingSource slow;
  engine.set_sources(&fast, &slow);
  for (int i = 0; i < 1023; ++i) EXPECT_FALSE(engine.step());
  EXPECT_EQ(fast.polls, 1023);
  EXPECT_EQ(slow.polls, 0);
  engine.step();
  EXPECT_EQ(slow.polls, 1);
}

// ---- Round: one rank that talks to itself over shared memory ----

class RoundTest : public ::testing::Test {
 protected:
  void send(std::span<const std::byte> data) {
    messaging::SendOperation operation = rank_.group().send_operation(0, data);
    rank_.messaging.start(operation);
    ASSERT_TRUE(operation.done);
  }
  static Task receive_two(collectives::Group group, std::span<std::byte> first,
                          std::span<std::byte> second, int& resumed) {
    collectives::Round<2> round{group};
    round.receive(0, first);
    round.receive(0, second);
    try {
      co_await round;
    } catch (...) {
      ++resumed;
      throw;
    }
    ++resumed;
  }

  test::LoneRank rank_;
  std::array<std::byte, 8> sent_{std::byte{1}, std::byte{2}, std::byte{3}};
  std::array<std::byte, 8> first_{};
  std::array<std::byte, 8> second_{};
  int resumed_ = 0;
};

TEST_F(RoundTest, resumes_once_when_both_halves_have_ended) {
  TaskOperation task;
  rank_.engine.start(task, [&] { return receive_two(rank_.group(), first_, second_, resumed_); });
  send(sent_);
  rank_.steps();
  EXPECT_EQ(first_, sent_);
  EXPECT_FALSE(task.done);
  send(sent_);
  rank_.steps();
  ASSERT_TRUE(task.done);
  EXPECT_FALSE(task.error);
  EXPECT_EQ(resumed_, 1);
  EXPECT_EQ(second_, sent_);
}

TEST_F(RoundTest, waits_for_both_halves_and_throws_the_first_failure) {
  TaskOperation task;
  rank_.engine.start(task, [&] { return receive_two(rank_.group(), first_, second_, resumed_); });
  send(std::span{sent_}.first(4));  // shorter than due: this half has failed
  rank_.steps();
  EXPECT_FALSE(task.done);  // the other half may still write into its buffer
  EXPECT_EQ(resumed_, 0);
  send(std::span{sent_}.first(2));
  rank_.steps();
  ASSERT_TRUE(task.done);
  EXPECT_EQ(resumed_, 1);
  try {
    ASSERT_TRUE(task.error);
    std::rethrow_exception(task.error);
  } catch (const Error& error) {
    EXPECT_EQ(qpmesh::test::difference(
                  error, {ErrorCode::mismatch, 0, "", "a step of 4 bytes arrived where 8 were due",
                          "the two ends of a block must give it the same length"}),
              "");
  }
}

TEST_F(RoundTest, ends_with_the_communicators_failure_when_it_fails) {
  TaskOperation task;
  rank_.engine.start(task, [&] { return receive_two(rank_.group(), first_, second_, resumed_); });
  const Error failure{
      {.code = ErrorCode::aborted, .peer = 0, .operation = "abort", .cause = "enough"}};
  rank_.messaging.fail(test::LoneRank::communicator, failure);
  EXPECT_FALSE(task.done);  // a task ends only by being resumed
  rank_.steps();
  ASSERT_TRUE(task.done);
  try {
    ASSERT_TRUE(task.error);
    std::rethrow_exception(task.error);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::aborted);
    EXPECT_EQ(error.cause(), "enough");
  }
}

// Receives that answer offers, more of them than there are lines for answers, and a send that makes
// one. The frame is there already when memory begins to fail.
Task answer_offers(collectives::Group group, std::span<std::byte> large,
                   std::optional<test::FailingAllocation>& failing, std::uint64_t index) {
  collectives::Round<8> round{group};
  for (int i = 0; i < 8; ++i) round.receive(0, large);
  round.send(0, large);
  failing.emplace(index);
  co_await round;
}

TEST(a_round_that_runs_out_of_memory, wherever_it_does_leaves_no_operation_behind) {
  int failed = 0;
  bool fired = true;
  for (std::uint64_t index = 0; fired; ++index) {
    SCOPED_TRACE(index);
    test::LoneRank rank;
    std::vector<std::byte> large(2000);
    std::array<messaging::SendOperation, 8> offers;
    for (messaging::SendOperation& offer : offers) {
      offer = rank.group().send_operation(0, large);
      rank.messaging.start(offer);
    }
    rank.steps();
    messaging::SendOperation small = rank.group().send_operation(0, std::span{large}.first(8));
    do {
      small.done = false;
      rank.messaging.start(small);
    } while (small.done);  // the last one waits for a line

    TaskOperation task;
    std::optional<test::FailingAllocation> failing;
    rank.engine.start(task, [&] { return answer_offers(rank.group(), large, failing, index); });
    failing.reset();
    fired = test::FailingAllocation::fired();
    EXPECT_EQ(task.done, rank.failure != nullptr);
    if (task.done) {
      ++failed;
      EXPECT_TRUE(task.error);
      EXPECT_FALSE(rank.messaging.awaited(test::LoneRank::communicator))
          << "it lies in a frame that is gone";
    } else {  // nothing was missing, or what was can wait
      rank.communicator_failed(test::LoneRank::communicator, {.code = ErrorCode::aborted});
      rank.steps();
    }
  }
  EXPECT_GT(failed, 1);
}

}  // namespace
