// QPMESH_TUNING and qpmesh-tune: what one rank reads counts for all, and what the tool writes is
// accepted.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>

#include "job.hpp"

namespace qpmesh::ranks {
namespace {

std::string written(const Folder& folder, const std::string& text) {
  std::string path = folder.file("constants");
  std::ofstream{path} << text;
  return path;
}

// Of that rank alone.
ByHand tuned(int tuned_rank, const std::string& path) {
  return {.more_variables = [tuned_rank, path](int rank) {
    return rank == tuned_rank ? Words{"QPMESH_TUNING=" + path} : Words{};
  }};
}

void expect_refused_everywhere(const std::string& path, const std::string& cause,
                               const std::string& hint) {
  auto ranks = start_ranks(
      3,
      rank_program("init_fails", {"bad_config", "-1", "init",
                                  "tuning (QPMESH_TUNING), " + path + cause, hint, "0"}),
      tuned(0, path));
  expect_success(ranks);
}

TEST(tuning, a_file_that_is_refused_ends_init_on_every_rank_with_line_and_reason) {
  const Folder folder;
  expect_refused_everywhere(written(folder, "version = 1\nturns = 900 ns\n"),
                            " line 2: 'turns' is no constant", "did you mean turn?");
  expect_refused_everywhere(written(folder, "version = 7\n"),
                            " line 1: version 7, and this library reads version 1",
                            "measure again with the qpmesh-tune of this library");
  expect_refused_everywhere(folder.file("missing"), " cannot be opened: No such file or directory",
                            "rank 0 reads the file; qpmesh-tune --out writes one");
}

TEST(tuning, only_rank_0_needs_the_file_and_others_are_not_asked) {
  const Folder folder;
  const Words program = rank_program("allreduce_of_every_size");
  auto told = start_ranks(3, program, tuned(0, written(folder, "version = 1\nline = 1e6 ns\n")));
  expect_success(told);
  auto mistaken = start_ranks(3, program, tuned(2, folder.file("missing")));
  expect_success(mistaken);
}

Words tune(int ranks, Words arguments) {
  Words command{QPMESH_RUN, "-np", std::to_string(ranks), QPMESH_TUNE, "--quick"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

TEST(tuning, what_qpmesh_tune_measures_is_accepted_and_predicts) {
  const Folder folder;
  std::string path = folder.file("constants");
  Process measuring{tune(2, {"--out", path}), {}};
  ASSERT_EQ(measuring.wait(), 0) << measuring.output();
  std::ifstream file{path};
  const std::string text{std::istreambuf_iterator<char>{file}, {}};
  for (const auto* piece :
       {"\nversion = 1\n", "\ncopied_byte = ", "\nmemory_byte = ", "\nreduced_byte = "})
    EXPECT_NE(text.find(piece), std::string::npos) << piece << " in " << text;
  Process checking{tune(3, {"--check", "--max-bytes", "64"}), {"QPMESH_TUNING=" + path}};
  EXPECT_EQ(checking.wait(), 0);
  for (const auto* piece : {"# worst factor", "allreduce one_shot", "choices slower than the best"})
    EXPECT_NE(checking.output().find(piece), std::string::npos)
        << piece << " in " << checking.output();
}

TEST(tuning, qpmesh_tune_says_what_it_cannot_do) {
  Process alone{tune(1, {}), {}};
  EXPECT_NE(alone.wait(), 0);
  EXPECT_NE(alone.output().find("one rank measures nothing of another"), std::string::npos)
      << alone.output();
  Process nowhere{tune(2, {"--out", "/nowhere/constants"}), {}};
  EXPECT_NE(nowhere.wait(), 0);
  EXPECT_NE(nowhere.output().find("/nowhere/constants cannot be written"), std::string::npos)
      << nowhere.output();
}

}  // namespace
}  // namespace qpmesh::ranks
