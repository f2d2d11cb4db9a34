// SPDX-License-Identifier: MIT
// The benchmark programs as a user runs them: alone and, where Open MPI is installed, under its
// mpirun.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

namespace {

struct Row {
  std::size_t bytes = 0;
  std::string algorithm;
  std::string wrong;
  std::string ratio;  // with a baseline
};

struct Result {
  int exit_code = -1;
  std::string text;  // standard output and error
  std::vector<Row> rows;
};

// A row is what report.cpp prints: bytes count p50 p99 algbw busbw algorithm wrong limit predicted
// [peer_p50 ratio …].
std::vector<Row> rows_of(const std::string& text) {
  std::vector<Row> rows;
  std::istringstream lines{text};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words{line};
    std::vector<std::string> columns;
    for (std::string word; words >> word;) columns.push_back(word);
    if (columns.size() < 10 || columns[0].find_first_not_of("0123456789") != std::string::npos)
      continue;
    rows.push_back({.bytes = std::stoul(columns[0]),
                    .algorithm = columns[6],
                    .wrong = columns[7],
                    .ratio = columns.size() > 11 ? columns[11] : ""});
  }
  return rows;
}

Result run(const std::string& command) {
  Result result;
  std::FILE* const pipe = ::popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return result;
  std::array<char, 4096> part;
  for (std::size_t count = 0; (count = std::fread(part.data(), 1, part.size(), pipe)) > 0;) {
    result.text.append(part.data(), count);
  }
  const int status = ::pclose(pipe);
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.rows = rows_of(result.text);
  return result;
}

std::string program(const std::string& name) { return QPMESH_BINARY_DIR "/bin/bench_" + name; }

// Without the seconds for which Open MPI's launcher waits when a program has failed.
std::string under_qpmesh_run(int ranks, const std::string& command) {
  return fmt::format(QPMESH_BINARY_DIR "/bin/qpmesh-run -np {} {}", ranks, command);
}

void expect_all_right(const Result& result, std::size_t row_count) {
  EXPECT_EQ(result.exit_code, 0) << result.text;
  EXPECT_EQ(result.rows.size(), row_count) << result.text;
  for (const Row& row : result.rows) EXPECT_EQ(row.wrong, "0") << result.text;
}

void expect_all_wrong(const Result& result, std::size_t row_count) {
  EXPECT_EQ(result.exit_code, 1) << result.text;
  EXPECT_EQ(result.rows.size(), row_count) << result.text;
  for (const Row& row : result.rows) EXPECT_GT(std::stoul(row.wrong), 0U) << result.text;
}

TEST(bench_alone, a_world_of_one_is_measured_and_right) {
  const Result result = run(program("allreduce") + " --max-bytes 64 --samples 11");
  expect_all_right(result, 5);
  EXPECT_NE(result.text.find("ranks 1,"), std::string::npos) << result.text;
}

TEST(bench_alone, a_flipped_byte_is_noticed_at_every_size) {
  expect_all_wrong(run(program("allreduce") + " --corrupt --max-bytes 64 --samples 11"), 5);
}

TEST(bench_alone, an_unknown_option_ends_with_two_and_the_nearest_option) {
  const Result result = run(program("allreduce") + " --max-byte 64");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.text.find("unknown option --max-byte [hint: did you mean --max-bytes?]"),
            std::string::npos)
      << result.text;
}

TEST(bench_alone, a_filter_without_a_match_is_an_error) {
  const Result result = run(program("allreduce") + " --benchmark_filter=bcast");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.text.find("no benchmark matches --benchmark_filter"), std::string::npos)
      << result.text;
}

TEST(bench_alone, an_operation_between_two_says_that_one_is_too_few) {
  const Result result = run(program("sendrecv"));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.text.find("bench_sendrecv needs 2"), std::string::npos) << result.text;
}

TEST(bench_alone, the_mpi_baseline_asks_for_a_launcher) {
  const Result result = run("env -u OMPI_COMM_WORLD_RANK -u PMIX_RANK -u PMI_RANK -u PMI_FD " +
                            program("allreduce") + " --baseline mpi");
  EXPECT_EQ(result.exit_code, 2);
#ifdef QPMESH_TEST_MPIRUN
  EXPECT_NE(result.text.find("no MPI launcher started this process"), std::string::npos)
      << result.text;
#endif
}

#ifdef QPMESH_TEST_MPIRUN

std::string under_mpirun(int ranks, const std::string& command) {
  return fmt::format(
      "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 {} --oversubscribe -np {} {}",
      QPMESH_TEST_MPIRUN, ranks, command);
}

class BenchUnderMpirun : public testing::TestWithParam<int> {};

TEST_P(BenchUnderMpirun, allreduce_is_right_on_every_rank_and_at_every_size) {
  expect_all_right(
      run(under_mpirun(GetParam(), program("allreduce") + " --max-bytes 256KiB --samples 11")), 17);
}

TEST_P(BenchUnderMpirun, barrier_lets_nobody_out_before_the_last_is_in) {
  expect_all_right(run(under_mpirun(GetParam(), program("barrier") + " --samples 11")), 1);
}

INSTANTIATE_TEST_SUITE_P(ranks, BenchUnderMpirun, testing::Values(1, 2, 3, 4, 5, 7, 8),
                         [](const auto& ranks) { return std::to_string(ranks.param); });

// A program and how many series it has.
class BenchOfCollective : public testing::TestWithParam<std::tuple<std::string, std::size_t>> {};

// Three ranks: no power of two, so blocks are uneven and sizes are rounded up. The baseline is
// verified as ours is.
TEST_P(BenchOfCollective, is_right_and_so_is_the_baseline) {
  const auto& [name, series_count] = GetParam();
  const Result result = run(under_mpirun(
      3, program(name) + " --baseline mpi --min-bytes 3KiB --max-bytes 12KiB --samples 11"));
  expect_all_right(result, series_count * 3);
  for (const Row& row : result.rows) EXPECT_GT(std::stod(row.ratio), 0.0) << result.text;
}

TEST_P(BenchOfCollective, notices_a_flipped_byte) {
  const auto& [name, series_count] = GetParam();
  expect_all_wrong(run(under_qpmesh_run(
                       2, program(name) + " --corrupt --min-bytes 16 --max-bytes 32 --samples 11")),
                   series_count * 2);
}

INSTANTIATE_TEST_SUITE_P(all, BenchOfCollective,
                         testing::Values(std::tuple{"allgather", 2}, std::tuple{"alltoall", 2},
                                         std::tuple{"broadcast", 2}, std::tuple{"gather", 3},
                                         std::tuple{"reduce", 2}, std::tuple{"reduce_scatter", 2},
                                         std::tuple{"scan", 2}, std::tuple{"scatter", 3}),
                         [](const auto& collective) { return std::get<0>(collective.param); });

TEST(bench_under_mpirun, sizes_of_blocks_are_rounded_up_to_an_element_for_every_rank) {
  const Result result = run(under_mpirun(
      3, program("allgather") + " --max-bytes 16 --samples 11 --benchmark_filter=/float/"));
  expect_all_right(result, 2);
  EXPECT_EQ(result.rows.front().bytes, 12U) << result.text;
  EXPECT_EQ(result.rows.back().bytes, 24U) << result.text;
}

TEST(bench, a_byte_flipped_on_one_rank_is_known_to_the_one_that_prints) {
  expect_all_wrong(
      run(under_qpmesh_run(3, program("allreduce") + " --corrupt --max-bytes 64 --samples 11")), 5);
  expect_all_wrong(
      run(under_qpmesh_run(2, program("sendrecv") + " --corrupt --max-bytes 8 --samples 11")), 10);
  expect_all_wrong(
      run(under_qpmesh_run(2, program("halo") + " --corrupt --max-bytes 8 --samples 11")), 2);
}

TEST(bench_under_mpirun, messages_are_right_between_pairs_with_and_without_an_odd_rank) {
  expect_all_right(run(under_mpirun(2, program("sendrecv") + " --max-bytes 256KiB --samples 11")),
                   85);
  expect_all_right(run(under_mpirun(3, program("sendrecv") + " --max-bytes 1KiB --samples 11")),
                   45);
}

TEST(bench_under_mpirun, a_halo_is_right_where_neighbours_are_the_same_rank_and_where_not) {
  for (const int ranks : {2, 4, 7}) {
    expect_all_right(run(under_mpirun(ranks, program("halo") + " --max-bytes 1KiB --samples 11")),
                     9);
  }
}

TEST(bench_under_mpirun, an_allreduce_that_is_polled_and_one_of_halves_are_right) {
  expect_all_right(
      run(under_mpirun(3, program("allreduce_variants") + " --max-bytes 1KiB --samples 11")), 18);
}

TEST(bench_under_mpirun, vectors_behind_a_page_of_no_bytes_and_between_computing_are_right) {
  const std::string options = " --min-bytes 0 --max-bytes 8 --samples 11 --offset 16 ";
  expect_all_right(run(under_mpirun(3, program("broadcast") + options + "--compute-us 5")), 6);
  expect_all_right(run(under_mpirun(2, program("sendrecv") + options)), 15);
}

TEST(bench_under_mpirun, the_best_algorithm_stands_beside_the_chosen_one) {
  const Result result =
      run(under_mpirun(2, program("allgather") + " --baseline rows --max-bytes 8 --samples 11 "
                                                 "--benchmark_filter=/float/"));
  expect_all_right(result, 1);
  for (const Row& row : result.rows) EXPECT_GT(std::stod(row.ratio), 0.0) << result.text;
  EXPECT_NE(result.text.find("(itself "), std::string::npos) << result.text;
}

TEST(bench_under_mpirun, buffers_of_the_library_are_right_too) {
  expect_all_right(run(under_mpirun(3, program("allreduce") +
                                           " --buffers allocated --max-bytes 64KiB --samples 11")),
                   15);
}

TEST(bench_under_mpirun, the_baseline_gives_every_row_a_ratio) {
  const Result result =
      run(under_mpirun(2, program("allreduce") + " --baseline mpi --max-bytes 1KiB --samples 11"));
  expect_all_right(result, 9);
  for (const Row& row : result.rows) EXPECT_GT(std::stod(row.ratio), 0.0) << result.text;
}

TEST(bench_under_mpirun, one_program_after_another_in_one_job) {
  const std::string once = program("allreduce") + " --max-bytes 8 --samples 11";
  expect_all_right(run(under_mpirun(4, "sh -c '" + once + "; " + once + "'")), 4);
}

TEST(bench_under_mpirun, names_are_listed_once) {
  const Result result =
      run(under_mpirun(2, program("allreduce") + " --max-bytes 8 --benchmark_list_tests"));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.text,
            "allreduce/float_sum/4/iterations:1/manual_time\nallreduce/float_sum/8/iterations:1/"
            "manual_time\n");
}

TEST(bench_under_mpirun, one_rank_writes_the_file_with_our_counters) {
  const auto path = std::filesystem::temp_directory_path() /
                    fmt::format("bench_programs_test.{}.json", ::getpid());
  expect_all_right(run(under_mpirun(2, program("allreduce") +
                                           " --samples 11 --benchmark_filter=/8/ --benchmark_out=" +
                                           path.string())),
                   1);
  std::ifstream file{path};
  const std::string json{std::istreambuf_iterator<char>{file}, {}};
  std::filesystem::remove(path);
  for (const auto* counter :
       {"\"p50_us\"", "\"p99_us\"", "\"busbw\"", "\"wrong\": 0", "allreduce/float_sum/8/"}) {
    EXPECT_NE(json.find(counter), std::string::npos) << counter << " in " << json;
  }
}

#ifdef QPMESH_TEST_COMPARE

// The folder stays, so that the peer's program is built once.
const std::string compare_folder = QPMESH_BINARY_DIR "/compare_test";

// Its process number is the first line.
Result compare(const std::string& arguments) {
  return run(fmt::format("echo $$; exec {} {} --programs {}/bin --out {}", QPMESH_TEST_COMPARE,
                         arguments, QPMESH_BINARY_DIR, compare_folder));
}

std::string text_of(const std::string& path) {
  std::ifstream file{path};
  return {std::istreambuf_iterator<char>{file}, {}};
}

TEST(compare, tells_how_ours_and_open_mpi_did_at_every_size) {
  const std::string stem = compare_folder + "/allgatherv-3-private";
  for (const auto* ending : {".json", ".svg"}) std::filesystem::remove(stem + ending);
  const Result result = compare(
      "allgatherv --ranks 3 --min-bytes 24 --max-bytes 48 --turns 1 --samples 11 --peers open_mpi");
  ASSERT_EQ(result.exit_code, 0) << result.text;
  for (const auto* piece :
       {"open_mpi: Open MPI v", "\n| 24 B | ", "\n| 48 B | ", " | open_mpi | "}) {
    EXPECT_NE(result.text.find(piece), std::string::npos) << piece << " in " << result.text;
  }
  const std::string json = text_of(stem + ".json");
  for (const auto* piece :
       {"\"bytes\": 24", "\"bytes\": 48", "\"best_peer\": \"open_mpi\"", "\"ratio\""}) {
    EXPECT_NE(json.find(piece), std::string::npos) << piece << " in " << json;
  }
  const std::string svg = text_of(stem + ".svg");
  for (const auto* piece : {"<svg ", ">qpmesh</text>", ">open_mpi</text>", "</svg>"}) {
    EXPECT_NE(svg.find(piece), std::string::npos) << piece << " in " << svg;
  }
}

TEST(compare, joins_ranks_of_two_hosts_by_a_cable) {
  if (run("ip netns add qpmesh-compare-test && ip netns del qpmesh-compare-test").exit_code != 0)
    GTEST_SKIP() << "network namespaces take root and ip (iproute2)";
  const Result result = compare(
      "latency --over cable --ranks 2 --min-bytes 8 --max-bytes 16 --turns 1 --samples 11 --peers "
      "open_mpi");
  ASSERT_EQ(result.exit_code, 0) << result.text;
  for (const auto* piece : {"\n| 8 B | ", "\n| 16 B | ", " | open_mpi | "}) {
    EXPECT_NE(result.text.find(piece), std::string::npos) << piece << " in " << result.text;
  }
  const std::string name = "qpmesh-" + result.text.substr(0, result.text.find('\n')) + "-";
  EXPECT_EQ(run("ip netns list").text.find(name), std::string::npos) << "a host was left behind";
}

TEST(compare, a_peer_that_it_does_not_know_is_named_with_those_it_does) {
  const Result result = compare("allreduce --peers gloo");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.text.find("no peer gloo; known: open_mpi, open_mpi_sm, open_mpi_han, mpich"),
            std::string::npos)
      << result.text;
}

#endif

#endif

}  // namespace
