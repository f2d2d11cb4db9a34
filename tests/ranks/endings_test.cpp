// SPDX-License-Identifier: MIT
// Ranks that die, leave, give up or stop while others wait: who is told what, and how soon.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <tuple>

#include "base/process_memory.hpp"
#include "job.hpp"
#include "tests/support/long_runs.hpp"

namespace qpmesh::ranks {
namespace {

// The time that a rank printed behind a word.
std::int64_t time_of(const Process& rank, const std::string& word) {
  std::istringstream text{rank.output()};
  for (std::string first; text >> first;) {
    std::int64_t time = 0;
    if (first == word && text >> time) return time;
  }
  ADD_FAILURE() << "no \"" << word << "\" in:\n" << rank.output();
  return 0;
}

// In epoll_wait, once it has said that it waits: nothing else on its way sleeps.
void await_sleep(const Process& rank) {
  const std::string path = "/proc/" + std::to_string(rank.pid()) + "/stat";
  for (const std::int64_t end = now_ms() + patience_ms(); now_ms() < end;) {
    std::ifstream file{path};
    std::string text;
    std::getline(file, text);
    const std::size_t name_end = text.rfind(')');
    if (name_end != std::string::npos && text.substr(name_end).starts_with(") S")) return;
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
  ADD_FAILURE() << "rank " << rank.pid() << " does not sleep:\n" << rank.output();
}

class WaitingFor : public testing::TestWithParam<std::string> {};

TEST_P(WaitingFor, a_rank_that_is_killed_ends_with_its_name_within_a_second) {
  auto ranks = start_ranks(5, rank_program("the_last_rank_is_killed", {GetParam()}));
  for (const Process& rank : ranks) ASSERT_TRUE(rank.sees("waiting")) << rank.output();
  const std::int64_t killed = now_ms();
  ranks.back().send_signal(SIGKILL);
  EXPECT_EQ(ranks.back().wait(), 128 + SIGKILL);
  ranks.pop_back();
  expect_success(ranks);
  for (const Process& rank : ranks) {
    const std::int64_t told = time_of(rank, "told");
    EXPECT_GE(told, killed);
    EXPECT_LE(told - killed, 1'000) << rank.output();
  }
}

class WaitingForOne : public testing::TestWithParam<std::string> {};

TEST_P(WaitingForOne, a_rank_that_has_left_without_finish_ends_with_its_name) {
  auto ranks = start_ranks(5, rank_program("the_last_rank_leaves", {GetParam()}));
  expect_success(ranks);
}

const auto name_of = [](const auto& one) { return one.param; };

INSTANTIATE_TEST_SUITE_P(ways, WaitingFor,
                         testing::Values("barrier", "receive", "allreduce", "send", "receive_any",
                                         "probe"),
                         name_of);

// A receive from anybody may still be served by the others.
INSTANTIATE_TEST_SUITE_P(ways, WaitingForOne,
                         testing::Values("barrier", "receive", "allreduce", "send", "probe"),
                         name_of);

class ClosedDescriptors : public testing::TestWithParam<std::string> {};

TEST_P(ClosedDescriptors,
       are_said_by_the_rank_whose_application_closed_them_and_blamed_on_nobody_else) {
  auto ranks = start_ranks(3, rank_program("rank_0_closes_its_descriptors", {GetParam()}));
  expect_success(ranks);
  EXPECT_LE(time_of(ranks[0], "told") - time_of(ranks[0], "closed"), 1'500) << ranks[0].output();
}

INSTANTIATE_TEST_SUITE_P(kinds, ClosedDescriptors,
                         testing::Values("all", "eventpoll", "eventfd", "socket"),
                         [](const auto& one) { return one.param; });

TEST(endings, an_abort_by_a_second_thread_reaches_every_rank_with_its_reason) {
  auto ranks = start_ranks(4, rank_program("a_second_thread_aborts", {"the disk is full"}));
  expect_success(ranks);
  const std::int64_t aborted = time_of(ranks[0], "aborts");
  for (const Process& rank : ranks)
    EXPECT_LE(time_of(rank, "told") - aborted, 1'000) << rank.output();
}

TEST(endings, a_stopped_rank_is_a_warning_that_names_it_and_no_death) {
  const Folder folder;
  auto ranks = start_ranks(3, rank_program("the_last_rank_is_late", {folder.file("go")}),
                           {.variables = {"QPMESH_STALL_WARNING_MS=200"}});
  for (const Process& rank : ranks) ASSERT_TRUE(rank.sees("waiting")) << rank.output();
  const Process& last = ranks.back();
  const std::string warning =
      "barrier has waited 200 ms for rank 2 (pid " + std::to_string(last.pid()) + " on ";
  last.send_signal(SIGSTOP);
  std::ofstream{folder.file("go")} << "go\n";
  EXPECT_TRUE(ranks[0].sees(warning)) << ranks[0].output();
  EXPECT_TRUE(ranks[1].sees(warning)) << ranks[1].output();
  last.send_signal(SIGCONT);
  expect_success(ranks);
}

TEST(endings, ranks_that_both_wait_because_their_roots_differ_are_told_after_a_while) {
  auto ranks = start_ranks(2, rank_program("roots_that_differ_where_both_ranks_wait"),
                           {.variables = {"QPMESH_STALL_WARNING_MS=100"}});
  expect_success(ranks);
}

TEST(endings, a_goodbye_says_that_wait_any_gave_up_before) {
  auto ranks = start_ranks(2, rank_program("wait_any_gives_up"));
  expect_success(ranks);
}

TEST(endings, a_deadline_that_was_outlived_blames_nobody) {
  auto ranks = start_ranks(3, rank_program("a_deadline_that_was_outlived_blames_nobody"));
  expect_success(ranks);
}

TEST(endings, a_death_ends_a_wait_for_requests_of_two_contexts) {
  for (const std::string first : {"world", "other"}) {
    for (const Words& variables : {Words{}, Words{"QPMESH_SPIN_US=0"}}) {
      auto ranks = start_ranks(2, rank_program("a_member_of_two_contexts_dies", {first}),
                               {.variables = variables});
      EXPECT_EQ(ranks[0].wait(), 0) << ranks[0].output();
      EXPECT_LT(time_of(ranks[0], "over") - time_of(ranks[0], "told"), 1'000) << ranks[0].output();
    }
  }
}

TEST(endings, what_waits_for_a_message_of_anybody_ends_when_all_others_have_left) {
  for (const std::string how : {"receive", "probe"}) {
    for (const int size : {2, 4}) {
      auto ranks = start_ranks(size, rank_program("all_others_leave", {how}));
      expect_success(ranks);
    }
  }
}

TEST(endings, a_send_that_timed_out_is_never_received_with_what_its_buffer_says_later) {
  for (const std::string memory : {"buffer", "private"}) {
    const Folder folder;
    auto ranks =
        start_ranks(2, rank_program("a_sender_takes_its_buffer_back",
                                    {folder.file("overwritten"), folder.file("received"), memory}));
    expect_success(ranks);
  }
}

TEST(endings, a_rank_that_is_killed_while_others_copy_out_of_it_never_makes_wrong_data_right) {
  for (const int size : {2, 3}) {  // two that have a core each copy together
    auto ranks = start_ranks(size, rank_program("a_giver_is_killed"));
    for (const Process& rank : ranks) ASSERT_TRUE(rank.sees("waiting")) << rank.output();
    ranks.back().send_signal(SIGKILL);
    EXPECT_EQ(ranks.back().wait(), 128 + SIGKILL);
    ranks.pop_back();
    expect_success(ranks);
  }
}

// What is measured may find another way faster than that both copy.
const std::string filling = "QPMESH_CHOICE=predicted";

TEST(endings, ranks_that_are_stopped_again_and_again_while_they_copy_together_get_what_was_sent) {
  const Folder folder;
  auto ranks = start_ranks(2, rank_program("long_messages_until", {folder.file("enough")}),
                           {.variables = {filling}});
  for (const Process& rank : ranks) ASSERT_TRUE(rank.sees("waiting")) << rank.output();
  for (int stop = 0; stop < 200; ++stop) {
    Process& rank = ranks[static_cast<std::size_t>(stop % 2)];
    rank.send_signal(SIGSTOP);
    std::this_thread::sleep_for(std::chrono::microseconds{stop * 13 % 2000});
    rank.send_signal(SIGCONT);
    std::this_thread::sleep_for(std::chrono::microseconds{stop * 37 % 1500});
  }
  std::ofstream{folder.file("enough")} << "enough\n";
  expect_success(ranks);
}

// Held at the entry of its copying call, by a filter. Needs a core for each of the two: elsewhere
// nobody fills. Parameters: the way, and how it ends.
class HeldNeighbour : public testing::TestWithParam<std::tuple<std::string, std::string>> {};
INSTANTIATE_TEST_SUITE_P(while_it_fills, HeldNeighbour,
                         testing::Combine(testing::Values("message", "broadcast"),
                                          testing::Values("goes_on", "dies")),
                         [](const auto& suite) {
                           return std::get<0>(suite.param) + "_" + std::get<1>(suite.param);
                         });

TEST_P(HeldNeighbour, keeps_the_call_and_is_named_until_it_goes_on_or_ends) {
  if (std::thread::hardware_concurrency() < 2)
    GTEST_SKIP() << "ranks that share a core do not fill";
  if (!base::ProcessMemory::stores_in_order)
    GTEST_SKIP() << "stores of a system call are not seen in order here";
  const auto [way, end] = GetParam();
  const std::string length_ms = std::to_string(test::times(2'000, 60'000));
  auto ranks = start_ranks(2, rank_program("a_neighbour_is_held", {way, length_ms, end}),
                           {.variables = {"QPMESH_STALL_WARNING_MS=1000", filling}});
  EXPECT_TRUE(ranks[0].sees("rank 1 (pid " + std::to_string(ranks[1].pid()))) << ranks[0].output();
  EXPECT_TRUE(ranks[0].sees("held up while it copies into the buffer of this call"))
      << ranks[0].output();
  const bool dies = end == "dies";
  EXPECT_EQ(ranks[1].wait(100'000), dies ? 128 + SIGKILL : 0) << ranks[1].output();
  EXPECT_EQ(ranks[0].wait(), 0) << ranks[0].output();
}

// At the deadline, which the call outlasts, and not before.
TEST(endings_on_one_node, a_neighbour_that_is_held_is_named_once_where_nobody_asks_for_warnings) {
  if (std::thread::hardware_concurrency() < 2 || !base::ProcessMemory::stores_in_order)
    GTEST_SKIP() << "nobody fills here";
  auto ranks = start_ranks(2, rank_program("a_neighbour_is_held", {"message", "2500", "goes_on"}),
                           {.variables = {"QPMESH_STALL_WARNING_MS=0", filling}});
  expect_success(ranks);
  const std::string text = ranks[0].output();
  const std::string warning = "held up while it copies into the buffer of this call";
  const std::size_t first = text.find(warning);
  EXPECT_NE(first, std::string::npos) << text;
  EXPECT_EQ(text.find(warning, first + 1), std::string::npos) << text;
}

TEST(endings, a_sender_that_sleeps_returns_with_its_last_credit) {
  const Folder folder;
  auto ranks =
      start_ranks(2,
                  rank_program("a_sender_sleeps_for_a_credit",
                               {folder.file("out"), folder.file("go"), folder.file("sent")}),
                  {.variables = {"QPMESH_SPIN_US=0"}});
  // A sleep before this word waits for a file.
  ASSERT_TRUE(ranks[0].sees("waiting")) << ranks[0].output();
  await_sleep(ranks[0]);
  std::ofstream{folder.file("go")} << "go\n";
  expect_success(ranks);
  const std::int64_t late_ms = time_of(ranks[0], "sent") - time_of(ranks[1], "progresses");
  EXPECT_GE(late_ms, 0) << "it did not wait for the credit";
  EXPECT_LT(late_ms, 500);
}

TEST(endings, a_communicator_made_while_a_member_died_names_it) {
  const Folder folder;
  auto ranks = start_ranks(2, rank_program("a_member_dies_right_after_split", {folder.file("go")}),
                           {.variables = {"QPMESH_SPIN_US=0"}});
  ASSERT_TRUE(ranks[0].sees("waiting")) << ranks[0].output();
  await_sleep(ranks[0]);
  ranks[0].send_signal(SIGSTOP);
  std::ofstream{folder.file("go")} << "go\n";
  EXPECT_EQ(ranks[1].wait(), 0) << ranks[1].output();
  ranks[0].send_signal(SIGCONT);
  expect_success(ranks);
  EXPECT_LT(time_of(ranks[0], "told") - time_of(ranks[0], "split"), 1'000) << ranks[0].output();
}

}  // namespace
}  // namespace qpmesh::ranks
