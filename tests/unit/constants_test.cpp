// The file of constants: what it may say, what it is told when it says something else, and what
// follows from it.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <string>

#include "collectives/choice.hpp"
#include "collectives/cost.hpp"
#include "collectives/registry.hpp"
#include "startup/init.hpp"
#include "support/expected_error.hpp"

namespace {

using namespace qpmesh;
using namespace qpmesh::collectives;

template <class F>
std::string refusal(F&& call, const std::string& cause, const std::string& hint) {
  try {
    call();
  } catch (const Error& error) {
    return test::difference(
        error, {ErrorCode::bad_config, no_peer, "init", "tuning (QPMESH_TUNING), " + cause, hint});
  }
  return "no error";
}

TEST(constants, come_back_as_they_were_written) {
  Constants constants;
  for (const ConstantRow& row : constant_table()) constants.*row.member *= 1.5;
  const Constants read =
      parse_constants(format_constants(constants, "of a machine\nand more", constant_table()), "f");
  for (const ConstantRow& row : constant_table())
    EXPECT_NEAR(row.value(read), row.value(constants), 1e-3 * row.value(constants)) << row.name;
}

TEST(constants, have_built_in_values_in_their_ranges_and_names_that_differ) {
  std::string names;
  for (const ConstantRow& row : constant_table()) {
    EXPECT_GE(row.value({}), row.lowest) << row.name;
    EXPECT_LE(row.value({}), row.highest) << row.name;
    EXPECT_EQ(names.find(fmt::format(" {} ", row.name)), std::string::npos) << row.name;
    names += fmt::format(" {} ", row.name);
  }
}

TEST(constants, are_the_table_of_docs_tuning_md) {
  std::ifstream file{std::string{QPMESH_SOURCE_DIR} + "/docs/tuning.md"};
  const std::string text{std::istreambuf_iterator<char>{file}, {}};
  for (const ConstantRow& row : constant_table()) {
    const std::string line =
        fmt::format("\n| `{}` | {} | {:.8g} | {} |\n", row.name, row.unit, row.value({}), row.doc);
    EXPECT_NE(text.find(line), std::string::npos) << line;
  }
}

TEST(constants, that_a_file_does_not_name_keep_their_built_in_values) {
  Constants expected;
  expected.turn_s = 2.5e-6;
  EXPECT_EQ(parse_constants("# a comment\n\nversion = 1 # ours\r\n\t turn=2500 ns#said\n", "f"),
            expected);
  EXPECT_EQ(parse_constants("version = 1", "f"), Constants{});
}

struct BadFile {
  std::string text;
  std::string cause;
  std::string hint;
};
void PrintTo(const BadFile& file, std::ostream* out) { *out << file.cause; }

const std::string line_hint = "write `name = value unit`, and comments behind #";
const std::string version_hint = "its first line is `version = 1`; qpmesh-tune writes it";

class BadFiles : public testing::TestWithParam<BadFile> {};

TEST_P(BadFiles, are_refused_with_line_and_reason) {
  const BadFile& file = GetParam();
  EXPECT_EQ(refusal([&] { parse_constants(file.text, "my.tuning"); }, "my.tuning " + file.cause,
                    file.hint),
            "");
}

INSTANTIATE_TEST_SUITE_P(
    all, BadFiles,
    testing::Values(
        BadFile{"", "line 0: the file has no version", version_hint},
        BadFile{"# only a comment\n", "line 1: the file has no version", version_hint},
        BadFile{"line = 5 ns\nversion = 1\n", "line 1: a name before the version", version_hint},
        BadFile{"version = 2\n", "line 1: version 2, and this library reads version 1",
                "measure again with the qpmesh-tune of this library"},
        BadFile{"version =\n", "line 1: version , and this library reads version 1",
                "measure again with the qpmesh-tune of this library"},
        BadFile{"version = 1\nversion = 1\n", "line 2: version is there twice",
                "leave one of the two lines out"},
        BadFile{"version = 1\n\nline 5 ns\n", "line 3: 'line 5 ns' is no name with a value",
                line_hint},
        BadFile{"version = 1\n\x01\x7f\xc3\n",
                "line 2: '?"
                "?"
                "?' is no name with a value",
                line_hint},
        BadFile{"version = 1\n" + std::string(70, 'x'),
                "line 2: '" + std::string(60, 'x') + "…' is no name with a value", line_hint},
        BadFile{"version = 1\nlinr = 5 ns\n", "line 2: 'linr' is no constant",
                "did you mean line?"},
        BadFile{"version = 1\n = 5 ns\n", "line 2: '' is no constant", "known: line, turn, *"},
        BadFile{"version = 1\nsomething_else = 5 ns\n", "line 2: 'something_else' is no constant",
                "known: line, turn, *"},
        BadFile{"version = 1\nline = 5 ns\nline = 5 ns\n", "line 3: line is there twice",
                "leave one of the two lines out"},
        BadFile{"version = 1\nline = five ns\n", "line 2: 'five ns' is not a number of ns",
                "allowed: 1 to 1000000 ns"},
        BadFile{"version = 1\nline =\n", "line 2: '' is not a number of ns",
                "allowed: 1 to 1000000 ns"},
        BadFile{"version = 1\nline = 5\n", "line 2: '5' is not a number of ns",
                "allowed: 1 to 1000000 ns"},
        BadFile{"version = 1\nline = 5 us\n", "line 2: '5 us' is not a number of ns",
                "allowed: 1 to 1000000 ns"},
        BadFile{"version = 1\nline = 5.5.5 ns\n", "line 2: '5.5.5 ns' is not a number of ns",
                "allowed: 1 to 1000000 ns"},
        BadFile{"version = 1\nline = 0.5 ns\n", "line 2: line of '0.5 ns' is out of range",
                "allowed: 1 to 1000000 ns"},
        BadFile{"version = 1\nline = -5 ns\n", "line 2: line of '-5 ns' is out of range",
                "allowed: 1 to 1000000 ns"},
        BadFile{"version = 1\nline = 1e7 ns\n", "line 2: line of '1e7 ns' is out of range",
                "allowed: 1 to 1000000 ns"},
        BadFile{"version = 1\nline = 1e999 ns\n", "line 2: line of '1e999 ns' is out of range",
                "allowed: 1 to 1000000 ns"},
        BadFile{"version = 1\nline = nan ns\n", "line 2: line of 'nan ns' is out of range",
                "allowed: 1 to 1000000 ns"},
        BadFile{"version = 1\nline = inf ns\n", "line 2: line of 'inf ns' is out of range",
                "allowed: 1 to 1000000 ns"}),
    [](const auto& file) { return fmt::format("file_{}", file.index); });

// ---- what one rank loads for all ----

TEST(loaded_tuning, is_nothing_without_a_path_and_the_file_with_one) {
  EXPECT_TRUE(startup::load_tuning("").empty());
  EXPECT_EQ(startup::tuned_constants({}), Constants{});
  const std::string path = testing::TempDir() + "loaded_tuning";
  std::ofstream{path} << "version = 1\nline = 500 ns\n";
  EXPECT_NEAR(startup::tuned_constants(startup::load_tuning(path)).line_s, 500e-9, 1e-15);
  std::ofstream{path} << "version = 1\nlines = 500 ns\n";
  EXPECT_EQ(refusal([&] { startup::tuned_constants(startup::load_tuning(path)); },
                    path + " line 2: 'lines' is no constant", "did you mean line?"),
            "");
  std::ofstream{path} << std::string(40'000, '#');
  const std::string hint = "rank 0 reads the file; qpmesh-tune --out writes one";
  EXPECT_EQ(refusal([&] { startup::tuned_constants(startup::load_tuning(path)); },
                    path + " is longer than 32768 bytes", hint),
            "");
  std::remove(path.c_str());
  EXPECT_EQ(refusal([&] { startup::tuned_constants(startup::load_tuning(path)); },
                    path + " cannot be opened: No such file or directory", hint),
            "");
  EXPECT_EQ(refusal([&] { startup::tuned_constants(startup::load_tuning("/")); },
                    "/ cannot be read: Is a directory", hint),
            "");
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(refusal([&] { startup::tuned_constants(startup::load_tuning(path)); },
                    path + " cannot be read: no file, reading it may never end", hint),
            "");
  std::remove(path.c_str());
}

// ---- what follows ----

struct Expected {
  Collective collective;
  std::size_t bytes;
  std::string two_ranks;   // a core each
  std::string four_ranks;  // on two cores
};
void PrintTo(const Expected& choice, std::ostream* out) {
  *out << name_of(choice.collective) << ' ' << choice.bytes;
}

std::string chosen(const Expected& choice, int size, const TopologyParams& topology) {
  return std::string{
      Selector{topology}
          .cheapest({.size = size, .bytes = choice.bytes, .one_node = true, .cma = true},
                    choice.collective)
          .name};
}

class BuiltInChoice : public testing::TestWithParam<Expected> {};

TEST_P(BuiltInChoice, is_what_was_best_when_it_was_measured) {
  const Expected& choice = GetParam();
  EXPECT_EQ(chosen(choice, 2, {.shares_memory = true}), choice.two_ranks);
  EXPECT_EQ(chosen(choice, 4, {.shares_memory = true, .ranks_per_core = 2}), choice.four_ranks);
}

constexpr std::size_t kib = 1024;
INSTANTIATE_TEST_SUITE_P(
    all, BuiltInChoice,
    testing::Values(Expected{Collective::barrier, 0, "one_shot", "one_shot"},
                    Expected{Collective::broadcast, 8, "one_shot", "one_shot"},
                    Expected{Collective::broadcast, 64 * kib, "cma", "double_buffered"},
                    Expected{Collective::broadcast, 1024 * kib, "cma", "double_buffered"},
                    Expected{Collective::reduce, 8, "one_shot", "one_shot"},
                    Expected{Collective::allgather, 8, "one_shot", "one_shot"},
                    Expected{Collective::allgather, 4 * kib, "one_shot", "one_shot"},
                    Expected{Collective::allgather, 64 * kib, "cma", "double_buffered"},
                    Expected{Collective::allgather, 1024 * kib, "cma", "double_buffered"},
                    Expected{Collective::reduce_scatter, 8, "one_shot", "one_shot"},
                    Expected{Collective::reduce_scatter, 64 * kib, "cma", "direct"},
                    Expected{Collective::reduce_scatter, 1024 * kib, "cma", "cma"},
                    Expected{Collective::allreduce, 8, "one_shot", "one_shot"},
                    Expected{Collective::allreduce, 16 * kib, "direct", "direct"},
                    Expected{Collective::allreduce, 1024 * kib, "cma", "direct"},
                    Expected{Collective::allreduce, 4096 * kib, "cma", "direct"},
                    Expected{Collective::alltoall, 8, "one_shot", "one_shot"},
                    Expected{Collective::alltoall, 4 * kib, "one_shot", "one_shot"},
                    Expected{Collective::alltoall, 256 * kib, "cma", "double_buffered"},
                    Expected{Collective::alltoall, 1024 * kib, "cma", "cma"}),
    [](const auto& row) {
      return fmt::format("{}_{}", name_of(row.param.collective), row.param.bytes);
    });

TEST(choice, follows_the_constants) {
  TopologyParams topology{.shares_memory = true};
  const Expected vector{Collective::allreduce, 1024 * kib, "", ""};
  EXPECT_EQ(chosen(vector, 2, topology), "cma");
  topology.constants.system_copy_s = 1e-3;
  EXPECT_EQ(chosen(vector, 2, topology), "direct");
}

TEST(predictions, grow_with_what_ranks_share_and_with_each_constant) {
  for (const Algorithm* const each : algorithms()) {
    const Algorithm& row = *each;
    const CallShape shape{.size = 4, .bytes = 4 * kib, .one_node = true, .cma = true};
    if (!row.applies(shape)) continue;
    double before_s = 0;
    for (const int ranks : {1, 2, 4}) {
      const TopologyParams topology{.shares_memory = true, .ranks_per_core = ranks};
      const double time_s = Selector{topology}.predicted_s(shape, row);
      EXPECT_TRUE(std::isfinite(time_s) && time_s > before_s)
          << name_of(row.collective) << ' ' << row.name;
      before_s =
          ranks == 4 ? 0 : time_s / 2;  // copies do not cross any more when all are on one core
      for (const ConstantRow& constant : constant_table()) {
        if (constant.unit == "bytes") continue;
        TopologyParams slower = topology;
        slower.constants.*constant.member *= 2;
        EXPECT_GE((Selector{slower}.predicted_s(shape, row)), time_s)
            << constant.name << ' ' << row.name;
      }
    }
  }
}

}  // namespace
