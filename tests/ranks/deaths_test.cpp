// SPDX-License-Identifier: MIT
// A rank is killed, stopped, or aborts all in the middle of anything, and the programs of the
// others end on their error: every one of them is told of that rank and of nobody else, however
// soon the others left.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <fstream>
#include <random>
#include <thread>
#include <tuple>

#include "job.hpp"
#include "tests/support/long_runs.hpp"

namespace qpmesh::ranks {
namespace {

// In each of four parts, of each number of ranks: more than 500 in all in a long run.
int trials() { return test::times(1, 42); }

std::vector<Process> operating_ranks(int size, std::uint64_t seed, int abort_after_us,
                                     const Words& variables) {
  auto ranks = start_ranks(size,
                           rank_program("operations_until_an_error",
                                        {std::to_string(seed), std::to_string(abort_after_us)}),
                           {.variables = variables});
  if (abort_after_us >= 0) return ranks;  // some may hear of it before they operate
  for (const Process& rank : ranks) EXPECT_TRUE(rank.sees("operating")) << rank.output();
  return ranks;
}

void expect_told(Process& rank, const std::string& what) {
  EXPECT_EQ(rank.wait(), 0) << rank.output();
  EXPECT_NE(rank.output().find("told " + what), std::string::npos) << "not told " << what << ":\n"
                                                                   << rank.output();
}

// Some time later one of them gets the signal, and each other one is told of it. Returns that one.
std::size_t expect_survivors_are_told(std::vector<Process>& ranks, std::mt19937_64& draws,
                                      int signal, const std::string& what) {
  const auto victim = static_cast<std::size_t>(draws() % ranks.size());
  std::this_thread::sleep_for(std::chrono::microseconds{draws() % 20'000});
  ranks[victim].send_signal(signal);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (rank != victim) expect_told(ranks[rank], what + " " + std::to_string(victim) + ":");
  }
  return victim;
}

class Deaths : public testing::TestWithParam<std::tuple<int, int>> {  // ranks, part
 protected:
  static int size() { return std::get<0>(GetParam()); }
  static std::mt19937_64 seeded(int kind, int trial) {
    return std::mt19937_64{static_cast<std::uint64_t>(
        ((kind * 10 + size()) * 10 + std::get<1>(GetParam())) * 1'000 + trial)};
  }
};

TEST_P(Deaths, by_kill_are_told_to_every_survivor_with_the_right_name) {
  for (int trial = 0; trial < trials(); ++trial) {
    std::mt19937_64 draws = seeded(1, trial);
    auto ranks = operating_ranks(size(), draws(), -1, {});
    expect_survivors_are_told(ranks, draws, SIGKILL, "peer_dead");
    ASSERT_FALSE(HasFailure()) << "trial " << trial;
  }
}

TEST_P(Deaths, by_abort_are_told_to_every_rank_with_the_one_that_aborted) {
  for (int trial = 0; trial < trials(); ++trial) {
    std::mt19937_64 draws = seeded(2, trial);
    const std::uint64_t seed = draws();
    auto ranks = operating_ranks(size(), seed, static_cast<int>(draws() % 10'000), {});
    for (Process& rank : ranks) expect_told(rank, "aborted 0:");
    ASSERT_FALSE(HasFailure()) << "trial " << trial;
  }
}

// A rank that is stopped is alive: the others end on their limit, each within it.
TEST_P(Deaths, that_are_none_are_told_as_a_timeout_of_the_rank_that_stopped) {
  const int stops = std::get<1>(GetParam()) == 0 ? test::times(1, 10) : 0;  // each takes its limit
  for (int trial = 0; trial < stops; ++trial) {
    std::mt19937_64 draws = seeded(3, trial);
    auto ranks = operating_ranks(size(), draws(), -1, {"QPMESH_TIMEOUT_MS=2000"});
    const std::size_t victim = expect_survivors_are_told(ranks, draws, SIGSTOP, "timeout");
    ranks[victim].send_signal(SIGKILL);
    ASSERT_FALSE(HasFailure()) << "trial " << trial;
  }
}

INSTANTIATE_TEST_SUITE_P(of_ranks, Deaths,
                         testing::Combine(testing::Values(2, 4, 8), testing::Range(0, 4)),
                         [](const auto& one) {
                           return std::to_string(std::get<0>(one.param)) + "_part_" +
                                  std::to_string(std::get<1>(one.param));
                         });

// The end of a socket and the word of the control channel come in any order: it is a death.
TEST(over_tcp, a_rank_that_is_killed_is_told_to_every_survivor) {
  for (const int size : {2, 4}) {
    for (int trial = 0; trial < test::times(3, 50); ++trial) {
      std::mt19937_64 draws{static_cast<std::uint64_t>(size * 1'000 + trial)};
      Words variables{"QPMESH_TRANSPORT=tcp"};
      if (trial % 2 == 0) variables.emplace_back("QPMESH_NETDEV=lo");  // else Unix sockets
      if (trial % 3 == 1) variables.emplace_back("QPMESH_CONNECT_WHEN=first_use");
      auto ranks = operating_ranks(size, draws(), -1, variables);
      expect_survivors_are_told(ranks, draws, SIGKILL, "peer_dead");
      ASSERT_FALSE(HasFailure()) << "trial " << trial;
    }
  }
}

TEST(over_tcp, a_rank_that_is_stopped_is_told_as_a_timeout_of_it) {
  for (const char* const when : {"init", "first_use"}) {
    auto ranks = operating_ranks(3, 11, -1,
                                 {"QPMESH_TRANSPORT=tcp", "QPMESH_TIMEOUT_MS=2000",
                                  std::string{"QPMESH_CONNECT_WHEN="} + when});
    ranks[1].send_signal(SIGSTOP);
    for (const std::size_t rank : {0U, 2U}) expect_told(ranks[rank], "timeout 1:");
    ranks[1].send_signal(SIGKILL);
  }
}

TEST(leaving, by_an_exception_is_told_as_that) {
  auto ranks = start_ranks(3, rank_program("the_last_rank_unwinds"));
  expect_success(ranks);
}

TEST(leaving, right_after_finish_is_no_death_whatever_handles_are_left) {
  auto ranks = start_ranks(3, rank_program("the_last_rank_ends_after_finish"));
  expect_success(ranks);
}

TEST(leaving, of_a_duplicate_is_none_of_the_world) {
  for (const char* const transport : {"shm", "tcp"}) {
    auto ranks = start_ranks(3, rank_program("the_last_rank_dies_after_a_duplicate_finished"),
                             {.variables = {std::string{"QPMESH_TRANSPORT="} + transport}});
    expect_success(ranks);
  }
}

TEST(deaths, are_found_by_a_program_that_calls_progress_alone_and_seldom) {
  for (const char* const threads : {"one", "several"}) {
    auto ranks = start_ranks(2, rank_program("a_death_is_found_by_few_calls_of_progress"),
                             {.variables = {std::string{"QPMESH_THREADS="} + threads}});
    expect_success(ranks);
  }
}

void expect_last_named(const std::string& communicators) {
  const Folder folder;
  auto ranks =
      start_ranks(4, rank_program("each_waits_for_the_next", {folder.file("go"), communicators}));
  for (int rank = 0; rank < 3; ++rank) {
    Process& waiting = ranks[static_cast<std::size_t>(rank)];
    EXPECT_TRUE(waiting.sees("told")) << waiting.output();
  }
  std::ofstream{folder.file("go")} << "go\n";
  expect_success(ranks);
}

TEST(timeouts, name_the_rank_that_all_others_wait_for) { expect_last_named("the_world"); }

TEST(timeouts, name_the_rank_that_all_others_wait_for_in_several_communicators) {
  expect_last_named("in_turn");
}

TEST(timeouts, stay_the_same_failure_for_every_later_call) {
  const Folder folder;
  auto ranks = start_ranks(2, rank_program("a_failure_stays_the_same", {folder.file("go")}));
  expect_success(ranks);
}

}  // namespace
}  // namespace qpmesh::ranks
