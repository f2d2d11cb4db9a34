// SPDX-License-Identifier: MIT
// Messaging on every kind of network it promises to work on.
#include <gtest/gtest.h>

#include "simulation/scenarios.hpp"

namespace qpmesh::test {
namespace {

using messaging::Messaging;
using simulator::shared_memory_network;

class OnEveryNetwork : public testing::TestWithParam<Flavour> {
 protected:
  static NetworkConfig network(int rank_count, std::uint64_t seed) {
    return GetParam().config(rank_count, seed);
  }
};

void add(messaging::Counters& sum, const messaging::Counters& more) {
  sum.segments_sent += more.segments_sent;
  sum.zero_copy_sends += more.zero_copy_sends;
  sum.pulls += more.pulls;
  sum.reads += more.reads;
  sum.credit_writes += more.credit_writes;
  sum.degraded += more.degraded;
  sum.partial_records += more.partial_records;
}

TEST_P(OnEveryNetwork, every_message_arrives_whole_and_in_order) {
  messaging::Counters counters;
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    const int ranks = 1 + static_cast<int>(seed % 5);
    const Outcome outcome = random_traffic({.network = network(ranks, seed),
                                            .receive_after_ns = seed % 3 == 0 ? 3'000'000 : 0,
                                            .send_pause_max_ns = seed % 2 == 0 ? 20'000 : 0});
    ASSERT_EQ(outcome.wrong, "");
    add(counters, outcome.counters);
  }
  const NetworkConfig config = network(2, 1);
  EXPECT_GT(counters.credit_writes, 0U);
  EXPECT_GT(counters.degraded, 0U);
  EXPECT_EQ(counters.pulls > 0, config.loads_peer_memory);
  EXPECT_EQ(counters.reads > 0, config.rendezvous_reads);
  EXPECT_EQ(counters.zero_copy_sends > 0, config.registers_user_memory && !config.rendezvous_reads);
  if (!config.registers_user_memory && !config.copies_private_memory) {
    EXPECT_GT(counters.segments_sent, 0U);
  }
  // It bites: records were looked at before they were whole.
  const bool tears = !config.ordered_flag && config.small == transport::Notification::poll;
  EXPECT_EQ(counters.partial_records > 0, tears);
}

TEST_P(OnEveryNetwork, small_messages_overrun_no_ring_while_nobody_receives) {
  for (std::uint64_t seed = 100; seed < 104; ++seed) {
    const Outcome outcome = random_traffic({.network = network(3, seed),
                                            .messages_per_rank = 300,
                                            .receive_after_ns = 5'000'000,
                                            .send_pause_max_ns = 2'000,
                                            .bytes_max = 1'024});
    ASSERT_EQ(outcome.wrong, "");
  }
}

TEST_P(OnEveryNetwork, a_seed_repeats_its_trace) {
  const Traffic traffic{.network = network(3, 77)};
  const Outcome first = random_traffic(traffic);
  const Outcome second = random_traffic(traffic);
  Traffic other = traffic;
  other.network.seed = 78;
  EXPECT_EQ(first.wrong, "");
  EXPECT_EQ(first.trace, second.trace);
  EXPECT_NE(first.trace, random_traffic(other).trace);
}

TEST_P(OnEveryNetwork, payload_that_looks_like_later_records_is_not_believed) {
  EXPECT_EQ(imitated_records(network(2, 5)), "");
}

TEST_P(OnEveryNetwork, memory_that_is_back_at_its_owner_is_left_alone) {
  EXPECT_EQ(memory_taken_back(network(2, 50)), "");
}

TEST_P(OnEveryNetwork, memory_goes_back_from_a_rank_that_stands_still_and_the_link_lives_on) {
  EXPECT_EQ(memory_closed_to_a_rank_that_stands_still(network(2, 150)), "");
}

TEST_P(OnEveryNetwork, an_answer_leaves_at_once_while_data_fills_the_ring) {
  EXPECT_EQ(control_while_data_fills_the_ring(network(2, 6)), "");
}

TEST_P(OnEveryNetwork, an_answer_does_not_wait_for_all_long_messages_before_it) {
  EXPECT_EQ(answer_among_long_messages(network(2, 7)), "");
}

TEST_P(OnEveryNetwork, credits_return_though_the_connection_is_busy) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed)
    EXPECT_EQ(one_way_to_a_stopped_rank(network(2, seed)), "");
}

TEST_P(OnEveryNetwork, a_large_message_passes_behind_unmatched_ones) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    Outcome outcome;
    EXPECT_EQ(large_message_behind_unmatched_ones(network(2, seed), outcome), "");
    const NetworkConfig config = network(2, seed);
    EXPECT_EQ(outcome.counters.segments_sent > 0,
              !config.registers_user_memory && !config.copies_private_memory);
    EXPECT_EQ(outcome.counters.pulls > 0, config.copies_private_memory);
  }
}

// ---- two rails ----

class TwoRails : public testing::TestWithParam<Flavour> {
 protected:
  static NetworkConfig network(int rank_count, std::uint64_t seed) {
    return GetParam().config(rank_count, seed);
  }
};

// One end fails: it gives its rail up, the other end is told, and both go on with the other one.
// Then the other end sees it first, then both see it by themselves.
TEST_P(TwoRails, lose_nothing_when_one_fails) {
  for (std::uint64_t seed = 1; seed <= 120; ++seed) {
    const int rail = seed % 4 == 0 ? 1 : 0;
    const std::int64_t after_ns = 7'000 * static_cast<std::int64_t>(seed);
    std::vector<RailFailure> failures;
    if (seed % 3 != 0) failures.push_back({rail, 0, 1, after_ns});
    if (seed % 3 != 1)
      failures.push_back({rail, 1, 0, after_ns + 300 * static_cast<std::int64_t>(seed % 7)});
    const Outcome outcome = random_traffic({.network = network(2, seed),
                                            .receive_after_ns = seed % 5 == 0 ? 400'000 : 0,
                                            .send_pause_max_ns = seed % 2 == 0 ? 20'000 : 0,
                                            .rail_failures = failures});
    ASSERT_EQ(outcome.wrong, "") << "rail " << rail << " fails after " << after_ns << " ns";
  }
}

TEST_P(TwoRails, lose_no_word_and_no_count_when_the_first_fails) {
  EXPECT_EQ(first_rail_lost_one_way(network(2, 1)), "");
}

TEST_P(TwoRails, leave_memory_alone_that_is_back_at_its_owner_when_the_first_fails) {
  for (std::uint64_t seed = 50; seed < 400; seed += 50)
    EXPECT_EQ(memory_taken_back(network(2, seed), true), "");
}

TEST_P(TwoRails, live_on_when_memory_goes_back_from_a_rank_that_stands_still) {
  EXPECT_EQ(memory_closed_to_a_rank_that_stands_still(network(2, 450)), "");
}

// Others need not notice.
TEST_P(TwoRails, fail_between_some_ranks_while_others_go_on) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const Outcome outcome = random_traffic(
        {.network = network(4, seed),
         .rail_failures = {
             {0, 0, 1, 20'000}, {0, 2, 1, 50'000}, {1, 3, 1, 60'000}, {0, 2, 3, 70'000}}});
    ASSERT_EQ(outcome.wrong, "") << seed;
  }
}

TEST_P(TwoRails, end_the_link_with_both_causes_when_both_fail) {
  for (const int later : {0, 1}) {
    for (const std::int64_t after_ns : {0, 1'000, 3'000, 100'000}) {
      const Outcome outcome = random_traffic(
          {.network = network(2, 1),
           .messages_per_rank = 400,
           .rail_failures = {{1 - later, 0, 1, 20'000}, {later, 0, 1, 20'000 + after_ns}}});
      EXPECT_NE(outcome.wrong.find("the first rail: "), std::string::npos) << outcome.wrong;
      EXPECT_NE(outcome.wrong.find("the second rail: "), std::string::npos) << outcome.wrong;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(over, TwoRails, testing::ValuesIn(flavours_of_rails()),
                         [](const auto& flavour) { return std::string{flavour.param.name}; });

INSTANTIATE_TEST_SUITE_P(all, OnEveryNetwork, testing::ValuesIn(flavours()),
                         [](const auto& flavour) { return std::string{flavour.param.name}; });

}  // namespace
}  // namespace qpmesh::test
