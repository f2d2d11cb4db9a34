// SPDX-License-Identifier: MIT
// What messages between nodes cost: who measures it, and what all ranks take for it.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>

#include "startup/network_times.hpp"

namespace qpmesh::startup {
namespace {

using Pairs = std::vector<std::pair<int, int>>;

TEST(network_times, are_measured_by_the_first_ranks_of_two_nodes_and_by_no_rank_twice) {
  EXPECT_EQ(measuring_pairs(std::array{0, 1}), (Pairs{{0, 1}}));
  EXPECT_EQ(measuring_pairs(std::array{0, 0, 1, 1}), (Pairs{{0, 2}}));
  EXPECT_EQ(measuring_pairs(std::array{0, 1, 0, 2, 3, 1}), (Pairs{{0, 1}, {3, 4}}));
  EXPECT_EQ(measuring_pairs(std::array{0, 1, 2}), (Pairs{{0, 1}}));
}

TEST(network_times, of_a_node_whose_ranks_a_network_joins_are_those_of_its_first_two) {
  EXPECT_EQ(measuring_pairs(std::array{0, 0, 0}), (Pairs{{0, 1}}));
  EXPECT_EQ(measuring_pairs(std::array{0}), Pairs{});
}

TEST(network_times, are_rounded_so_that_a_tenth_more_is_mostly_the_same) {
  EXPECT_DOUBLE_EQ(rounded(1.0), 1.0);
  EXPECT_DOUBLE_EQ(rounded(1.1), 1.0);
  EXPECT_DOUBLE_EQ(rounded(1.3), std::sqrt(2.0));
  EXPECT_DOUBLE_EQ(rounded(0.9e-6), rounded(1.0e-6));
  EXPECT_EQ(rounded(0), 0);
  EXPECT_EQ(rounded(-1e-9), 0);
}

// What a machine makes of the exchanges of a question, by their numbers.
struct Exchange {
  double taken_s;
  double delayed_s;  // known when the next one is over
};
struct Asked {
  int exchanges = 0;
  double all_s = 0;
  std::optional<double> undelayed_s{};
};
Asked ask(const std::function<Exchange(int number)>& machine, int exchanges_enough = 20) {
  ExchangeTimes times{exchanges_enough};
  Asked asked;
  std::optional<double> last_delayed_s;
  while (times.wants_more()) {
    const Exchange exchange = machine(asked.exchanges++);
    asked.all_s += exchange.taken_s;
    if (last_delayed_s) times.judge(*last_delayed_s);
    times.add(exchange.taken_s);
    last_delayed_s = exchange.delayed_s;
  }
  times.judge(*last_delayed_s);
  asked.undelayed_s = times.undelayed_s();
  return asked;
}

constexpr double us = 1e-6;
constexpr double ms = 1e-3;

TEST(a_question, takes_the_shortest_of_twenty_exchanges) {
  const Asked asked = ask([](int number) { return Exchange{(number == 7 ? 12 : 14) * us, 0}; });
  EXPECT_EQ(asked.exchanges, 20);
  EXPECT_EQ(asked.undelayed_s, 12 * us);
}

// The kernel has put both ranks on one core, and finds the other one after some time slices.
TEST(a_question, does_not_believe_exchanges_during_which_a_rank_waited_for_its_core) {
  for (const int bad : {1, 5, 10}) {
    const Asked asked = ask([&](int number) {
      return number < bad ? Exchange{4 * ms, 3 * ms} : Exchange{12 * us, 0};
    });
    EXPECT_EQ(asked.undelayed_s, 12 * us);
    EXPECT_LE(asked.all_s, bad * 4 * ms + 1 * ms);
  }
}

// One that looks short may be so by a rank that waited before the question came.
TEST(a_question, does_not_take_the_delay_of_one_exchange_for_that_of_another) {
  const Asked asked = ask([](int number) {
    return number % 2 == 0 ? Exchange{4 * ms, 3 * ms} : Exchange{number * 10 * us, 0};
  });
  EXPECT_EQ(asked.undelayed_s, 10 * us);
  EXPECT_EQ(ask([](int number) {
              return number == 3 ? Exchange{15 * us, 0} : Exchange{11 * us, 4 * ms};
            }).undelayed_s,
            15 * us);
}

TEST(a_question, has_no_answer_where_ranks_wait_for_their_cores_all_the_time_and_ends_soon) {
  for (const double each_s : {4 * ms, 15 * ms, 100 * ms}) {
    const Asked asked = ask([&](int) { return Exchange{each_s, each_s / 2}; });
    EXPECT_EQ(asked.undelayed_s, std::nullopt);
    EXPECT_LE(asked.all_s, std::max(50 * ms + each_s, 2 * each_s));
  }
}

// Its ranks sleep, and a kernel's thread has their core for a moment when they wake.
TEST(a_question, over_a_slow_network_is_asked_twice_and_does_not_mind_short_delays) {
  const Asked slow = ask([](int number) {
    return Exchange{number == 0 ? 90 * ms : 60 * ms, 0.1 * ms};
  });
  EXPECT_EQ(slow.exchanges, 2);
  EXPECT_EQ(slow.undelayed_s, 60 * ms);
  EXPECT_EQ(ask([](int) { return Exchange{30 * us, 15 * us}; }).undelayed_s, 30 * us);
}

TEST(a_question, that_is_asked_twice_to_see_how_long_it_takes_is_asked_twice_on_a_busy_host_too) {
  EXPECT_EQ(ask([](int) { return Exchange{1 * ms, 1 * ms}; }, 2).exchanges, 2);
}

}  // namespace
}  // namespace qpmesh::startup
