// SPDX-License-Identifier: MIT
// The same programs however they are started: by hand, over TCP, by qpmesh-run, by Open
// MPI, by Hydra; two at once, one after another.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <sstream>

#include "job.hpp"

namespace qpmesh::ranks {
namespace {

struct Launcher {
  std::string name;
  Words words;  // before -np
};

std::vector<Launcher> launchers() {
  std::vector<Launcher> all{{"qpmesh_run", {QPMESH_RUN}}};
#ifdef OPEN_MPI_RUN
  all.push_back({"open_mpi", {OPEN_MPI_RUN, "--oversubscribe"}});
#endif
#ifdef HYDRA_RUN
  all.push_back({"hydra", {HYDRA_RUN}});
#endif
  return all;
}

void PrintTo(const Launcher& launcher, std::ostream* out) { *out << launcher.name; }

Process start(const Launcher& launcher, int size, const Words& program) {
  Words words = launcher.words;
  words.insert(words.end(), {"-np", std::to_string(size)});
  words.insert(words.end(), program.begin(), program.end());
  return {words, {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"}};
}

// On a busy host MPICH's mpiexec may die by SIGPIPE before it starts anything, whatever the program
// is: then nothing was tried. It does so within milliseconds.
Process launch(const Launcher& launcher, int size, const Words& program) {
  constexpr int by_sigpipe = 128 + SIGPIPE;
  for (int again = 0;; ++again) {
    Process job = start(launcher, size, program);
    const bool nothing_tried =
        launcher.name == "hydra" && job.wait(300) == by_sigpipe && job.output().empty();
    if (!nothing_tried || again == 9) return job;
  }
}

std::size_t count_of(const std::string& text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

std::string in_quotes(const Words& words) {
  std::string text;
  for (const std::string& word : words) text += "'" + word + "' ";
  return text;
}

class Launchers : public testing::TestWithParam<Launcher> {};

TEST_P(Launchers, a_program_that_knows_nothing_of_its_launcher_is_right) {
  for (const int size : {1, 2, 5}) {
    Process job = launch(GetParam(), size, rank_program("allreduce_of_every_size"));
    EXPECT_EQ(job.wait(), 0) << job.output();
    EXPECT_EQ(count_of(job.output(), "right in a world of " + std::to_string(size) + "\n"), 1U)
        << job.output();
  }
}

TEST_P(Launchers, two_jobs_at_once_do_not_meet) {
  Process one = launch(GetParam(), 3, rank_program("every_size_between_all_pairs"));
  Process two = launch(GetParam(), 2, rank_program("allreduce_of_every_size"));
  EXPECT_EQ(one.wait(), 0) << one.output();
  EXPECT_EQ(two.wait(), 0) << two.output();
  EXPECT_EQ(count_of(two.output(), "right in a world of 2\n"), 1U) << two.output();
}

TEST_P(Launchers, one_program_after_another_and_init_again_in_one_job) {
  const std::string script = in_quotes(rank_program("again_after_finish")) + "; " +
                             in_quotes(rank_program("allreduce_of_every_size"));
  Process job = launch(GetParam(), 4, {"sh", "-c", script});
  EXPECT_EQ(job.wait(), 0) << job.output();
  EXPECT_EQ(count_of(job.output(), "right in a world of 4\n"), 5U) << job.output();
}

INSTANTIATE_TEST_SUITE_P(all, Launchers, testing::ValuesIn(launchers()),
                         [](const auto& one) { return one.param.name; });

TEST(ranks_by_hand, one_program_after_another_in_four_shells) {
  const std::string script = in_quotes(rank_program("allreduce_of_every_size")) + "; " +
                             in_quotes(rank_program("again_after_finish"));
  auto ranks = start_ranks(4, {"/bin/sh", "-c", script});
  expect_success(ranks);
  EXPECT_EQ(count_of(ranks[0].output(), "right in a world of 4\n"), 5U) << ranks[0].output();
}

TEST(ranks_by_hand, two_jobs_at_once_with_names_of_their_own) {
  auto one = start_ranks(2, rank_program("every_size_between_all_pairs"));
  auto two = start_ranks(3, rank_program("allreduce_of_every_size"));
  expect_success(one);
  expect_success(two);
}

#ifdef BENCH_ALLREDUCE

// Rows: bytes count p50 p99 algbw busbw algorithm wrong …; how many there are, and how
// many of them say that something was wrong.
struct Rows {
  std::size_t count = 0;
  std::size_t wrong = 0;
};

Rows rows_of(const std::string& text) {
  Rows rows;
  std::istringstream lines{text};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words{line};
    std::vector<std::string> columns;
    for (std::string word; words >> word;) columns.push_back(word);
    const auto is_number = [](const std::string& word) {
      return word.find_first_not_of("0123456789") == std::string::npos;
    };
    if (columns.size() < 8 || !is_number(columns[0]) || !is_number(columns[7])) continue;
    ++rows.count;
    if (columns[7] != "0") ++rows.wrong;
  }
  return rows;
}

Words bench(const std::string& bytes_max, Words more = {}) {
  Words words{BENCH_ALLREDUCE, "--max-bytes", bytes_max, "--samples", "11"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST_P(Launchers, the_benchmark_is_right) {
  Process job = launch(GetParam(), 4, bench("64KiB"));
  EXPECT_EQ(job.wait(), 0) << job.output();
  EXPECT_EQ(rows_of(job.output()).count, 15U) << job.output();
  EXPECT_EQ(rows_of(job.output()).wrong, 0U) << job.output();
}

TEST(ranks_by_hand, the_benchmark_is_right_up_to_16_mib_from_four_shells) {
  auto ranks = start_ranks(4, bench("16MiB"));
  expect_success(ranks);
  EXPECT_EQ(rows_of(ranks[0].output()).count, 23U) << ranks[0].output();
  EXPECT_EQ(rows_of(ranks[0].output()).wrong, 0U) << ranks[0].output();
}

TEST(ranks_by_hand, the_benchmark_knows_a_flipped_byte) {
  auto ranks = start_ranks(3, bench("1KiB", {"--corrupt"}));
  for (Process& rank : ranks) EXPECT_NE(rank.wait(), 0) << rank.output();
  EXPECT_EQ(rows_of(ranks[0].output()).count, 9U) << ranks[0].output();
  EXPECT_EQ(rows_of(ranks[0].output()).wrong, 9U) << ranks[0].output();
}

#endif

}  // namespace
}  // namespace qpmesh::ranks
