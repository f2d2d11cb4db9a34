// SPDX-License-Identifier: MIT
// When rows are tried, and what follows: whole lives of a class whose rows take given times.
#include "collectives/trials.hpp"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <random>
#include <set>
#include <vector>

#include "collectives/choice_words.hpp"

namespace {

using namespace qpmesh::collectives;

using TimeOf = std::function<double(RowIndex row, std::uint64_t call)>;  // in µs

// A class whose calls follow one another; what the members do together is done by one here.
struct Life {
  std::vector<RowIndex> candidates;
  TimeOf time_us;
  double between_us = 0;  // two calls, for something else
  double predicted_us = 10;
  std::uint32_t settling_calls = 0;
  Decision decision = first_decision(candidates, predicted_us);
  bool in_bursts = false;
  std::uint32_t need_not_settle = 0;
  Judge judge{decision, settling_calls, in_bursts, need_not_settle};
  std::uint64_t calls = 0;
  double spent_us = 0;
  double timed_calls = 0;
  std::array<std::uint64_t, rows_max> calls_of{};

  void round() {
    std::array<Span, stamps_max> stamps{};
    Decision next;
    for (std::uint32_t position = 0; position < decision.plan.calls;) {
      if (position == decision.plan.judged_at()) next = judge.judge(decision, stamps);
      const Leg leg = leg_at(decision.plan, position);
      ASSERT_GT(leg.calls, 0U);
      for (std::uint32_t i = 0; i < leg.calls; ++i) {
        spent_us += between_us;
        const auto now_ns = [&] { return static_cast<std::uint64_t>(spent_us * 1e3) + 1; };
        Span* const stamp = leg.stamp < 0 ? nullptr : &stamps[static_cast<std::size_t>(leg.stamp)];
        if (leg.begins) stamp->begin_ns = now_ns();
        spent_us += time_us(leg.row, calls++);
        ++calls_of[leg.row];
        if (leg.ends) stamp->end_ns = now_ns();
        if (leg.begins || leg.ends) ++timed_calls;
      }
      position += leg.calls;
    }
    decision = next;
  }
  void live(std::uint64_t until_calls) {
    while (calls < until_calls) round();
  }
};

TEST(a_plan, has_legs_that_end_where_it_is_judged_and_begin_and_end_each_stamp_once) {
  for (const double predicted_us : {0.2, 2.0, 50.0, 5'000.0}) {
    std::vector<RowIndex> rows;
    for (RowIndex count = 1; count <= 10; ++count) {
      rows.push_back(count);
      const Plan plan = first_decision(rows, predicted_us).plan;
      EXPECT_EQ(plan.tried.count, std::min<std::size_t>(count, tried_max));
      std::set<int> begun;
      std::set<int> ended;
      std::uint32_t firsts = 0;
      bool judged = false;
      std::uint32_t position = 0;
      while (position < plan.calls) {
        judged = judged || position == plan.judged_at();
        const Leg leg = leg_at(plan, position);
        const bool tries = position >= plan.opening && position < plan.judged_at() - plan.lead;
        EXPECT_TRUE(tries || leg.stamp < 0);
        EXPECT_TRUE(tries || leg.row == rows.front());
        firsts += leg.is_first ? 1 : 0;
        if (leg.begins || leg.ends) {
          EXPECT_EQ(leg.calls, 1U);
          EXPECT_LT(leg.stamp, static_cast<int>(stamps_max));
        }
        if (leg.begins) {
          EXPECT_TRUE(begun.insert(leg.stamp).second);
        }
        if (leg.ends) {
          EXPECT_TRUE(begun.contains(leg.stamp));
          EXPECT_TRUE(ended.insert(leg.stamp).second);
        }
        position += leg.calls;
      }
      EXPECT_EQ(position, plan.calls);
      EXPECT_TRUE(judged);
      EXPECT_EQ(firsts, plan.tried.count + 1U);  // and one behind them
      EXPECT_EQ(begun.size(), plan.tried.count * plan.stamps());
      EXPECT_EQ(ended, begun);
    }
  }
}

TEST(a_class, runs_what_was_predicted_first_and_the_fastest_after_a_hundred_calls) {
  const std::array<double, 4> times_us{20, 9, 8, 40};
  Life life{.candidates = {0, 1, 2, 3}, .time_us = [&](RowIndex row, std::uint64_t call) {
              EXPECT_TRUE(call >= opening_calls || row == 0);
              return times_us[row];
            }};
  while (!life.decision.plan.tried.empty()) life.round();
  EXPECT_LE(life.calls, 150U);
  EXPECT_EQ(life.decision.plan.row, 2);
  EXPECT_FLOAT_EQ(life.decision.figures[3].us, 40);
  life.live(500);
  EXPECT_EQ(life.decision.plan.row, 2);
  EXPECT_EQ(life.decision.figures[3].samples, 3U);  // only once
  EXPECT_EQ(life.decision.figures[1].samples, 8U);  // and closer
}

TEST(a_class, finds_the_fastest_row_through_noise) {
  std::mt19937 random{7};
  int right = 0;
  for (int life_number = 0; life_number < 100; ++life_number) {
    Life life{.candidates = {0, 1, 2}, .time_us = [&](RowIndex row, std::uint64_t) {
                const double quiet_us = row == 1 ? 10 : 12;
                const bool disturbed = random() % 5 == 0;
                return quiet_us + static_cast<double>(random() % 1000) * 1e-3 +
                       (disturbed ? 30 : 0);
              }};
    life.live(400);
    right += life.decision.plan.row == 1 ? 1 : 0;
  }
  EXPECT_GE(right, 98);
}

// As messages into a ring that has room: six calls in a row are fast, and then each waits for its
// reader.
TEST(a_class, does_not_take_a_row_that_is_fast_for_a_few_calls_only) {
  std::uint64_t in_a_row = 0;
  RowIndex last = 9;
  Life life{.candidates = {0, 1, 2}, .time_us = [&](RowIndex row, std::uint64_t) {
              in_a_row = row == last ? in_a_row + 1 : 0;
              last = row;
              return row == 0 ? 10.0 : row == 1 ? (in_a_row < 20 ? 3.0 : 30.0) : 12.0;
            }};
  life.live(400);
  EXPECT_EQ(life.decision.plan.row, 0);
  EXPECT_NEAR(life.decision.figures[1].us, 30, 0.1);
}

// Some hundred calls have a row from a trial that does not wait until rows are as fast as they will
// be.
TEST(a_class, has_learnt_after_some_hundred_calls_and_soon_again_from_rows_that_settle) {
  for (const double us : {1.0, 50.0}) {
    Life life{.candidates = {0, 1},
              .time_us = [&](RowIndex row, std::uint64_t) { return (row == 0 ? 1 : 1.1) * us; },
              .predicted_us = us,
              .settling_calls = 128};
    EXPECT_EQ(life.decision.plan.warming, warming_calls_min);
    while (!life.decision.plan.tried.empty() || life.decision.plan.proves()) life.round();
    EXPECT_LE(life.calls, us < 5 ? 150U : 100U);
    while (life.decision.plan.tried.empty() && life.spent_us < 1e5) life.round();
    EXPECT_NEAR(life.decision.plan.warming, us < 2 ? 128 : 10, 1);  // half a millisecond at most
    EXPECT_GT(life.spent_us, 10'000);
  }
}

// A proof says what the row takes when whoever runs ahead has been waited for.
TEST(a_proof, ends_with_a_call_that_waits_for_all) {
  Life life{.candidates = {0, 1},
            .time_us = [](RowIndex row, std::uint64_t) { return row == 0 ? 2.0 : 1.0; }};
  life.round();
  const Plan& plan = life.decision.plan;
  ASSERT_TRUE(plan.proves());
  for (std::uint32_t position = 0; position < plan.calls;) {
    const Leg leg = leg_at(plan, position);
    EXPECT_EQ(leg.is_first, position == plan.judged_at() - 1);
    position += leg.calls;
  }
}

// As staging that another row has left to memory: its lines come back one after another.
TEST(a_class, takes_a_row_that_becomes_fast_when_it_has_gone_through_its_memory) {
  std::uint64_t in_a_row = 0;
  RowIndex last = 9;
  Life life{.candidates = {0, 1, 2},
            .time_us =
                [&](RowIndex row, std::uint64_t) {
                  in_a_row = row == last ? in_a_row + 1 : 0;
                  last = row;
                  return row == 0 ? 1.2 : row == 1 ? (in_a_row < 100 ? 5.6 : 0.6) : 1.5;
                },
            .predicted_us = 1,
            .settling_calls = 100};
  life.live(2'000);
  EXPECT_EQ(life.decision.plan.row, 0);
  life.live(40'000);
  EXPECT_EQ(life.decision.plan.row, 1);
  EXPECT_NEAR(life.decision.figures[1].us, 0.6, 0.01);
}

// Staging that nobody has gone through makes those that use it slow, and no others.
TEST(a_class, does_not_believe_that_a_row_which_need_not_settle_is_a_little_faster) {
  for (const double other_us : {8.0, 4.0}) {
    Life life{.candidates = {0, 1},
              .time_us = [&](RowIndex row, std::uint64_t) { return row == 0 ? 10.0 : other_us; },
              .settling_calls = 100,
              .need_not_settle = 1U << 1};
    while (!life.decision.plan.tried.empty() || life.decision.plan.proves()) life.round();
    EXPECT_EQ(life.decision.plan.row, other_us < 7 ? 1 : 0);
    life.live(20'000);
    EXPECT_EQ(life.decision.plan.row, 1);  // settled, row 0 is still slower
  }
}

// As data that a root has left behind for those that share its core: many times there at once.
TEST(a_class, whose_calls_come_in_bursts_knows_what_all_of_them_take) {
  for (const bool in_bursts : {false, true}) {
    Life life{.candidates = {0, 1},
              .time_us =
                  [](RowIndex row, std::uint64_t call) {
                    return row == 1 ? 2.0 : call % 64 == 0 ? 160.0 : 0.5;  // 3 µs
                  },
              .predicted_us = 1,
              .in_bursts = in_bursts};
    life.live(2'000);
    EXPECT_EQ(life.decision.plan.row, in_bursts ? 1 : 0);
  }
}

// A time slice of somebody else is longer than all samples of a row.
TEST(a_class, looks_once_more_at_a_row_that_was_disturbed_from_beginning_to_end) {
  double disturbed_until_us = 0;
  double now_us = 0;
  Life life{.candidates = {0, 1},
            .time_us =
                [&](RowIndex row, std::uint64_t call) {
                  if (call == 180) disturbed_until_us = now_us + 20'000;
                  const double us = now_us < disturbed_until_us ? 200 : row == 0 ? 2.0 : 1.0;
                  now_us += us;
                  return us;
                },
            .predicted_us = 2};
  life.live(2'000);
  EXPECT_EQ(life.decision.plan.row, 1);
}

TEST(a_class, spends_at_most_a_fiftieth_of_its_time_on_trials) {
  const std::array<double, 5> times_us{100, 130, 180, 450, 490};
  Life life{.candidates = {0, 1, 2, 3, 4},
            .time_us = [&](RowIndex row, std::uint64_t) { return times_us[row]; }};
  life.live(200);
  const double begin_us = life.spent_us;
  const std::uint64_t begin_calls = life.calls;
  life.live(1'000'000);
  const double best_us = 100.0 * static_cast<double>(life.calls - begin_calls);
  EXPECT_LE((life.spent_us - begin_us) / best_us, 1.02);
  EXPECT_LT(life.timed_calls, 0.1 * static_cast<double>(life.calls));
  EXPECT_GT(life.calls_of[1], 20U);                   // looked at again
  EXPECT_GT(life.calls_of[1], 2 * life.calls_of[4]);  // what is clearly worse more rarely
}

TEST(a_class, is_tried_again_when_its_time_drifts) {
  constexpr std::uint64_t changed_at = 50'000;
  Life life{.candidates = {0, 1}, .time_us = [](RowIndex row, std::uint64_t call) {
              const bool changed = call >= changed_at;
              return row == 0 ? (changed ? 100.0 : 10.0) : 60.0;
            }};
  life.live(changed_at);
  EXPECT_EQ(life.decision.plan.row, 0);
  const double quiet_us = life.spent_us;
  while (life.decision.plan.row == 0 && life.spent_us < quiet_us + 5e6) life.round();
  EXPECT_EQ(life.decision.plan.row, 1);
  EXPECT_LT(life.spent_us - quiet_us, 2e6);
}

// As while the kernel has put two ranks on one core: each call lasts until one has spun through its
// time slice, whatever runs. What was learnt then is not held against any row.
TEST(a_class, learns_soon_again_what_it_could_not_while_ranks_waited_for_their_cores) {
  const std::array<double, 4> times_us{20, 9, 8, 40};
  for (const std::uint64_t disturbed_calls : {60U, 100U, 200U, 400U, 1'000U, 3'000U}) {
    for (unsigned seed = 1; seed <= 20; ++seed) {
      std::mt19937 random{seed};
      Life life{.candidates = {0, 1, 2, 3},
                .time_us =
                    [&](RowIndex row, std::uint64_t call) {
                      if (call < disturbed_calls)
                        return static_cast<double>(1'000 + random() % 4'000);
                      return times_us[row] * (1 + static_cast<double>(random() % 100) * 1e-3);
                    },
                .settling_calls = 64};
      life.live(disturbed_calls);
      const double quiet_us = life.spent_us;
      while (life.spent_us < quiet_us + 0.5e6) life.round();
      const std::uint64_t calls = life.calls;
      const std::uint64_t best_calls = life.calls_of[2];
      while (life.spent_us < quiet_us + 1.5e6) life.round();
      EXPECT_GT(life.calls_of[2] - best_calls, (life.calls - calls) * 9 / 10)
          << disturbed_calls << " calls, seed " << seed;
    }
  }
}

// One that is far slower than predicted is looked at again, ever more rarely.
TEST(a_class, spends_little_on_a_row_that_really_is_many_times_slower) {
  Life life{.candidates = {0, 1},
            .time_us = [](RowIndex row, std::uint64_t) { return row == 0 ? 10.0 : 1'000.0; }};
  while (life.spent_us < 20e6) life.round();
  const double best_us = 10.0 * static_cast<double>(life.calls);
  EXPECT_LT(life.spent_us / best_us, 1.02);
}

TEST(a_class, learns_a_better_row_when_the_machine_has_changed_and_its_own_time_has_not) {
  Life life{.candidates = {0, 1}, .time_us = [](RowIndex row, std::uint64_t call) {
              return row == 0 ? 50.0 : (call < 20'000 ? 70.0 : 20.0);
            }};
  life.live(10'000);
  EXPECT_EQ(life.decision.plan.row, 0);
  life.live(1'000'000);
  EXPECT_EQ(life.decision.plan.row, 1);
}

TEST(a_class, goes_on_where_nothing_was_measured) {
  Life life{.candidates = {2, 1}, .time_us = [](RowIndex, std::uint64_t) { return 0.0; }};
  life.live(100'000);
  EXPECT_EQ(life.decision.plan.row, 2);
  EXPECT_EQ(life.decision.figures[1], Figure{});
}

// A clock that is read for one call would say more of itself.
TEST(a_class, times_short_calls_many_at_once) {
  Life life{.candidates = {0, 1},
            .time_us = [](RowIndex row, std::uint64_t) { return row == 0 ? 0.2 : 0.15; },
            .predicted_us = 0.2};
  EXPECT_EQ(life.decision.plan.sample_calls, 2U);
  life.round();
  EXPECT_EQ(life.decision.plan.row, 1);
  EXPECT_EQ(life.decision.plan.sample_calls, sample_calls_max);
  EXPECT_NEAR(life.decision.figures[1].us, 0.15, 0.001);
}

// As a program that computes: what it does is no time of a row.
TEST(a_class, times_calls_singly_where_something_lies_between_them) {
  std::mt19937 random{7};
  Life life{.candidates = {0, 1},
            .time_us =
                [&](RowIndex row, std::uint64_t) {
                  life.between_us = 200 + static_cast<double>(random() % 50);
                  return row == 0 ? 3.0 : 2.0;
                },
            .between_us = 200,
            .predicted_us = 1};
  EXPECT_GT(life.decision.plan.sample_calls, 1U);
  while (!life.decision.plan.tried.empty()) {
    life.round();
    EXPECT_EQ(life.decision.plan.sample_calls, 1U);
  }
  EXPECT_EQ(life.decision.plan.row, 1);
  EXPECT_NEAR(life.decision.figures[0].us, 3, 0.01);
  EXPECT_NEAR(life.decision.figures[1].us, 2, 0.01);
}

// Calls that were started together: each has taken the time since the one before it ended.
TEST(a_time, of_calls_that_overlap_is_from_end_to_end) {
  const std::vector<RowIndex> rows{0, 1};
  const Decision first = first_decision(rows, 10);
  const std::size_t each = first.plan.stamps();
  std::array<Span, stamps_max> stamps{};
  for (std::size_t i = 0; i < each; ++i) {
    stamps[i] = {.begin_ns = 1000 + i, .end_ns = 11'000 + 10'000 * i};  // 10 µs each
    stamps[each + i] = {.begin_ns = 1010 + i, .end_ns = 98'000 + 7'000 * i};
  }
  Judge judge{first, 0, false};
  const Decision next = judge.judge(first, stamps);
  EXPECT_NEAR(next.figures[0].us, 10, 0.01);
  EXPECT_NEAR(next.figures[1].us, 7, 0.01);
}

// A root runs ahead of those who take: its own time is not the call's.
TEST(a_stamp, that_one_member_lacks_tells_nothing) {
  using Stamps = ChoiceWords<qpmesh::base::ProcessAtomics>;
  std::array<Stamps, 3> words{};
  constexpr std::uint64_t round = 5;
  std::uint32_t there = 0;
  for (const int stamp : {0, 2}) {
    for (std::size_t rank = 0; rank < words.size(); ++rank) {
      if (stamp == 2 && rank == 1) continue;
      words[rank].put_stamp(round, there, stamp, {.begin_ns = 10 + rank, .end_ns = 20 + rank});
    }
    there |= Stamps::bit(stamp);
  }
  const auto spans = spans_of_all(
      3, round, [&](int rank) -> const auto& { return words[static_cast<std::size_t>(rank)]; });
  EXPECT_EQ(spans[0].begin_ns, 12U);
  EXPECT_EQ(spans[0].end_ns, 22U);
  EXPECT_EQ(spans[1].end_ns, 0U);
  EXPECT_EQ(spans[2].end_ns, 0U);
}

}  // namespace
