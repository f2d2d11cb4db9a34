// SPDX-License-Identifier: MIT
// When rows are tried between nodes, and what follows: whole lives of a class whose rows take given
// times.
#include "collectives/network_trials.hpp"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <random>
#include <vector>

namespace {

using namespace qpmesh::collectives;

// All members of a class.
struct NetworkLife {
  std::vector<RowIndex> candidates;
  std::function<double(RowIndex row, std::uint64_t call, std::size_t member)> time_us;
  double predicted_us = 20;
  bool last_ends_late = false;  // the call before each judgement: behind that one
  std::array<NetworkTrials, 3> members{NetworkTrials{candidates, predicted_us},
                                       NetworkTrials{candidates, predicted_us},
                                       NetworkTrials{candidates, predicted_us}};
  std::uint64_t calls = 0;
  std::uint64_t judgements = 0;
  std::uint32_t position = 0;
  std::array<std::uint64_t, rows_max> calls_of{};

  void judge() {
    TryTimes slowest{};
    for (const NetworkTrials& member : members) {
      const TryTimes times = member.times();
      for (std::size_t i = 0; i < times.size(); ++i) slowest[i] = std::max(slowest[i], times[i]);
    }
    for (NetworkTrials& member : members) member.judge(slowest);
    ++judgements;
    position = 0;
  }
  // The next legs, until so many calls.
  void live(std::uint64_t until_calls) {
    while (calls < until_calls) {
      const Leg leg = members[0].leg_at(position);
      for (const NetworkTrials& member : members) {
        const Leg its = member.leg_at(position);
        ASSERT_EQ(its.row, leg.row);
        ASSERT_EQ(its.calls, leg.calls);
        ASSERT_EQ(its.stamp, leg.stamp);
      }
      if (leg.calls == 0) {
        judge();
        continue;
      }
      ASSERT_EQ(leg.begins, leg.stamp >= 0);
      ASSERT_EQ(leg.ends, leg.begins);
      if (leg.begins) {
        ASSERT_EQ(leg.calls, 1U);
      }
      const bool is_late = last_ends_late && members[0].leg_at(position + 1).calls == 0;
      for (std::size_t i = 0; leg.begins && !is_late && i < members.size(); ++i) {
        const double us = time_us(leg.row, calls, i);
        if (us >= 0) members[i].add(leg.stamp, static_cast<std::uint64_t>(us * 1e3));
      }
      const std::uint64_t taken = std::min<std::uint64_t>(leg.calls, until_calls - calls);
      calls += taken;
      calls_of[leg.row] += taken;
      position += static_cast<std::uint32_t>(taken);
    }
  }
};

TEST(a_class_between_nodes, runs_what_is_predicted_first_and_the_fastest_after_some_hundred_calls) {
  const std::array<double, 4> row_us{20, 12, 10, 60};
  NetworkLife life{.candidates = {0, 1, 2, 3},
                   .time_us = [&](RowIndex row, std::uint64_t call, std::size_t) {
                     EXPECT_GE(call, opening_calls);
                     return row_us[row];
                   }};
  life.live(opening_calls);
  EXPECT_EQ(life.calls_of[0], opening_calls);
  life.live(250);
  for (const NetworkTrials& member : life.members) EXPECT_EQ(member.row(), 2);
  EXPECT_FLOAT_EQ(life.members[0].figure(1).us, 12);
  EXPECT_FLOAT_EQ(life.members[0].figure(3).us, 60);
  // What is far behind has two laps.
  EXPECT_EQ(life.members[0].figure(3).samples * 3, life.members[0].figure(1).samples * 2);
  EXPECT_EQ(life.members[0].figure(4).samples, 0U);
}

TEST(a_class_between_nodes, counts_what_the_last_member_takes) {
  NetworkLife life{.candidates = {0, 1, 2},
                   .time_us = [](RowIndex row, std::uint64_t, std::size_t member) {
                     if (member == row) return 30.0;  // one that takes
                     return row == 1 ? 1.0 : 25.0;    // those that only give run ahead
                   }};
  life.live(500);
  EXPECT_EQ(life.members[0].row(), 0);
  EXPECT_FLOAT_EQ(life.members[0].figure(1).us, 30);
}

TEST(a_class_between_nodes, takes_no_figure_of_a_row_whose_calls_have_not_all_ended) {
  NetworkLife life{.candidates = {0, 1},
                   .time_us = [](RowIndex row, std::uint64_t call, std::size_t member) {
                     if (row == 0) return 20.0;
                     return member == 1 && call % 3 == 0 ? -1.0 : 1.0;
                   }};
  life.live(500);
  EXPECT_EQ(life.members[0].row(), 0);
  EXPECT_EQ(life.members[0].figure(1).samples, 0U);
  NetworkLife none{.candidates = {0, 1},
                   .time_us = [](RowIndex, std::uint64_t, std::size_t) { return -1.0; }};
  none.live(5'000);
  EXPECT_EQ(none.members[0].row(), 0);
}

TEST(a_class_between_nodes, tries_the_last_row_too_where_calls_are_under_way_when_it_is_judged) {
  const std::array<double, 3> row_us{30, 25, 10};
  for (const std::vector<RowIndex>& candidates :
       {std::vector<RowIndex>{0, 2}, std::vector<RowIndex>{0, 1, 2}}) {
    NetworkLife life{
        .candidates = candidates,
        .time_us = [&](RowIndex row, std::uint64_t, std::size_t) { return row_us[row]; },
        .last_ends_late = true};
    life.live(500);
    EXPECT_EQ(life.members[0].row(), 2) << candidates.size();
  }
}

TEST(a_class_between_nodes, finds_the_fastest_row_through_noise_and_goes_on_looking) {
  std::mt19937 random{11};
  int right = 0;
  for (int number = 0; number < 50; ++number) {
    NetworkLife life{.candidates = {0, 1, 2},
                     .time_us = [&](RowIndex row, std::uint64_t, std::size_t) {
                       const bool disturbed = random() % 50 == 0;
                       return (row == 1 ? 10 : 14) + static_cast<double>(random() % 1000) * 2e-3 +
                              (disturbed ? 100 : 0);
                     }};
    life.live(5'000);
    right += life.members[0].row() == 1 ? 1 : 0;
  }
  EXPECT_GE(right, 48);

  NetworkLife changes{.candidates = {0, 1},
                      .time_us = [](RowIndex row, std::uint64_t call, std::size_t) {
                        return (row == 0) == (call < 10'000) ? 10.0 : 20.0;
                      }};
  changes.live(9'000);
  EXPECT_EQ(changes.members[0].row(), 0);
  changes.live(1'000'000);
  EXPECT_EQ(changes.members[0].row(), 1);
}

TEST(a_class_between_nodes, goes_on_trying_a_row_that_was_disturbed_in_one_lap) {
  std::uint64_t tried = 0;
  NetworkLife life{.candidates = {0, 1},
                   .time_us = [&](RowIndex row, std::uint64_t, std::size_t member) {
                     if (row == 0) return 20.0;
                     if (member == 0) ++tried;
                     return tried < 5 ? 4'000.0 : 10.0;  // the first calls: somebody had the core
                   }};
  life.live(500);
  EXPECT_EQ(life.members[0].row(), 1);
}

TEST(a_class_between_nodes, does_not_believe_tries_that_end_before_rings_are_full) {
  std::uint64_t in_a_row = 0;
  RowIndex last = 0;
  NetworkLife life{.candidates = {0, 1, 2},
                   .time_us = [&](RowIndex row, std::uint64_t, std::size_t member) {
                     if (member == 0) in_a_row = row == last ? in_a_row + 1 : 0;
                     last = row;
                     if (row == 1) return in_a_row < 50 ? 45.0 : 220.0;
                     return row == 0 ? 100.0 : 75.0;
                   }};
  life.live(20'000);
  EXPECT_EQ(life.members[0].row(), 2);
  EXPECT_FLOAT_EQ(life.members[0].figure(1).us, 220);
}

// Fast in a try, for which all wait, and for some calls behind it.
TEST(a_class_between_nodes, leaves_a_row_that_takes_longer_than_it_promised_before_the_next_trial) {
  for (const double slow_us : {40.0, 10.5}) {
    std::uint64_t in_a_row = 0;
    NetworkLife life{.candidates = {0, 1, 2},
                     .time_us = [&](RowIndex row, std::uint64_t, std::size_t) {
                       if (row != 1) return row == 0 ? 30.0 : 12.0;
                       return in_a_row < 2'000 ? 8.0 : slow_us;
                     }};
    std::uint64_t left_at = 0;
    while (life.calls < 30'000) {
      const std::uint64_t of_row = life.calls_of[1];
      const std::uint64_t calls = life.calls;
      life.live(calls + 100);
      in_a_row = life.calls_of[1] == of_row + 100 ? in_a_row + 100 : 0;
      if (left_at == 0 && calls > 3'000 && life.members[0].row() != 1) left_at = calls;
    }
    EXPECT_EQ(life.members[0].row(), slow_us > 12 ? 2 : 1);
    if (slow_us > 12) {
      EXPECT_LE(left_at, 15'000U);
    }
  }
}

// Row 1 is the best, and looked at. Row 2 seems better in tries, and proved that it is not.
struct LookedAt {
  std::function<double(RowIndex row, int look)> factor;  // of the last member, since that look
  std::uint64_t last_timed = 0;
  std::uint64_t in_a_row = 0;
  RowIndex last_row = 0;
  int looks = 0;  // at row 1
  bool is_trial = true;
  struct Trial {
    std::uint64_t first_call = 0;
    std::uint64_t last_call = 0;
    std::uint64_t proof_calls = 0;  // of other rows than 1, behind a look after it
  };
  std::vector<Trial> trials{Trial{.first_call = opening_calls}};

  double time_us(RowIndex row, std::uint64_t call, std::size_t member) {
    if (member == 0) {
      if (call > last_timed + 1 && trials.back().last_call > 0) {
        is_trial = row == 0;
        if (is_trial) trials.push_back({.first_call = call});
        else if (row == 1) ++looks;
      }
      in_a_row = row == last_row ? in_a_row + 1 : 0;
      last_row = row;
      last_timed = call;
      if (is_trial) trials.back().last_call = call;
      else if (row != 1) ++trials.back().proof_calls;
    }
    const double us = row == 0 ? 12 : row == 1 ? 10 : in_a_row < 400 ? 9 : 12;
    return member == 2 && factor ? us * factor(row, looks) : us;
  }
  std::vector<std::uint64_t> calls_between_trials() const {
    std::vector<std::uint64_t> calls;
    for (std::size_t i = 1; i < trials.size(); ++i)
      calls.push_back(trials[i].first_call - trials[i - 1].last_call - trials[i - 1].proof_calls);
    return calls;
  }
  NetworkLife life{.candidates = {0, 1, 2},
                   .time_us = [this](RowIndex row, std::uint64_t call, std::size_t member) {
                     return time_us(row, call, member);
                   }};
};

TEST(a_class_between_nodes, goes_on_as_before_when_one_look_was_disturbed) {
  LookedAt calm;
  calm.life.live(600'000);
  ASSERT_GE(calm.looks, 12);
  ASSERT_GE(calm.trials.size(), 5U);
  LookedAt disturbed{
      .factor = [](RowIndex, int look) { return look == 3 || look == 9 ? 8.0 : 1.0; }};
  disturbed.life.live(600'000);
  EXPECT_EQ(disturbed.life.members[0].row(), 1);
  EXPECT_FLOAT_EQ(disturbed.life.members[0].figure(1).us, 10);
  EXPECT_FLOAT_EQ(disturbed.life.members[0].figure(2).us, 12);
  EXPECT_EQ(disturbed.life.calls_of, calm.life.calls_of);
  EXPECT_EQ(disturbed.calls_between_trials(), calm.calls_between_trials());
  EXPECT_GT(disturbed.looks, calm.looks);
}

TEST(a_class_between_nodes, believes_no_old_proof_when_two_looks_took_longer_than_promised) {
  LookedAt calm;
  calm.life.live(600'000);
  // All rows, until the trial behind those looks; and one look more is disturbed.
  LookedAt busy;
  busy.factor = [&](RowIndex, int look) {
    if (look < 3 || busy.trials.size() > 2) return 1.0;
    return look == 5 ? 40.0 : 5.0;
  };
  while (busy.trials.back().proof_calls == 0) busy.life.live(busy.life.calls + 100);
  EXPECT_EQ(busy.looks, 4);
  busy.life.live(busy.life.calls + 10'000);
  ASSERT_EQ(busy.trials.size(), 2U);
  EXPECT_GE(busy.looks, 6);
  EXPECT_EQ(busy.life.members[0].row(), 1);
  EXPECT_FLOAT_EQ(busy.life.members[0].figure(0).us, 60);
  EXPECT_FLOAT_EQ(busy.life.members[0].figure(1).us, 50);
  EXPECT_FLOAT_EQ(busy.life.members[0].figure(2).us, 60);
  // They changed nothing: trials come when they would have come.
  busy.life.live(600'000);
  EXPECT_EQ(busy.life.members[0].row(), 1);
  EXPECT_EQ(busy.calls_between_trials(), calm.calls_between_trials());

  LookedAt slow{.factor = [](RowIndex row, int look) { return row == 1 && look >= 3 ? 5.0 : 1.0; }};
  while (slow.trials.back().proof_calls == 0) slow.life.live(slow.life.calls + 100);
  slow.life.live(slow.life.calls + 10'000);
  ASSERT_EQ(slow.trials.size(), 2U);
  EXPECT_EQ(slow.looks, 4);
  EXPECT_NE(slow.life.members[0].row(), 1);
  EXPECT_FLOAT_EQ(slow.life.members[0].figure(0).us, 12);
  EXPECT_FLOAT_EQ(slow.life.members[0].figure(1).us, 50);
}

TEST(a_class_between_nodes, spends_little_on_trials) {
  for (const double best_us : {5.0, 100.0, 20'000.0}) {
    const std::array<double, 3> row_us{best_us, 1.3 * best_us, 4 * best_us};
    NetworkLife life{
        .candidates = {0, 1, 2},
        .time_us = [&](RowIndex row, std::uint64_t, std::size_t) { return row_us[row]; },
        .predicted_us = best_us};
    life.live(100'000);
    double spent_us = 0;
    for (const std::size_t row : {0U, 1U, 2U})
      spent_us += static_cast<double>(life.calls_of[row]) * row_us[row];
    EXPECT_LE(spent_us, 1.03 * 100'000 * best_us) << best_us;
    EXPECT_LE(static_cast<double>(life.judgements) * 100, 0.02 * spent_us) << best_us;
  }
}

}  // namespace
