// SPDX-License-Identifier: MIT
// Timelines of calls: what ranks write, and what qpmesh-trace makes of it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "qpmesh/qpmesh.hpp"
#include "tools/trace/timeline.hpp"

namespace qpmesh::trace {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Folder {
 public:
  Folder() {
    std::string name = "/tmp/qpmesh-trace-XXXXXX";
    path_ = ::mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

Timeline timeline_of(const std::vector<std::string>& names) {
  Timeline timeline;
  for (const std::string& name : names) {
    std::ifstream file{name};
    EXPECT_TRUE(file) << name;
    read(timeline, file, name);
  }
  return timeline;
}

struct Outcome {
  int code = -1;
  std::string output;
};
Outcome run(const std::string& command) {
  std::FILE* const pipe = ::popen((command + " 2>&1").c_str(), "r");
  Outcome outcome;
  std::array<char, 4096> part{};
  while (const auto count = std::fread(part.data(), 1, part.size(), pipe))
    outcome.output.append(part.data(), count);
  const int status = ::pclose(pipe);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}
Outcome run_ranks(int ranks, const std::string& name, const std::string& scenario,
                  const std::string& more = "") {
  return run(fmt::format("QPMESH_TRACE={} {} {}/bin/qpmesh-run -np {} {} {}", name, more,
                         QPMESH_BINARY_DIR, ranks, QPMESH_RANK_PROGRAM, scenario));
}

const Bar* find(const Timeline& timeline, int rank, const std::string& operation,
                bool is_request = false) {
  for (const Bar& bar : timeline.bars)
    if (bar.rank == rank && bar.operation == operation && bar.is_request == is_request) return &bar;
  return nullptr;
}

std::string header(int rank, const std::string& host) {
  return fmt::format(
      R"([
{{"name":"process_name","ph":"M","pid":{},"args":{{"name":"rank","host":"{}","process":7}}}})",
      rank, host);
}
std::string call(int rank, const std::string& operation, int number, double begin, double end) {
  return fmt::format(
      R"(,
{{"name":"{}","ph":"X","pid":{},"tid":1,"ts":{},"dur":{},"args":{{"bytes":8,"communicator":"1","number":{}}}}})",
      operation, rank, begin, end - begin, number);
}
void read_text(Timeline& timeline, const std::string& text) {
  std::istringstream file{text};
  read(timeline, file, "text");
}

TEST(a_trace, has_every_call_of_a_rank_once_with_what_it_was) {
  const Folder folder;
  {
    Options options;
    options.trace = folder / "job";
    Communicator world = init(options);
    int value = 3;
    world.broadcast(value, 0);
    int got = 0;
    Request receiving = world.receive_async(got, 0, 5);
    world.send(value, 0, 5);
    receiving.wait();
    const std::vector<float> data(100);
    std::vector<float> out(100);
    world.allreduce_async(data, out, sum).wait();
    EXPECT_THROW(world.send(value, 3), Error);
    world.finish();
  }
  const auto whole = json::parse(std::ifstream{folder / "job.0.json"});
  EXPECT_GE(whole.size(), 10U);
  const Timeline timeline = timeline_of({folder / "job.0.json"});
  ASSERT_EQ(timeline.ranks.size(), 1U);
  EXPECT_TRUE(timeline.ranks[0].whole);
  std::map<std::string, int> counts;
  for (const Bar& bar : timeline.bars) {
    EXPECT_LE(bar.begin_us, bar.end_us);
    ++counts[(bar.is_request ? "~" : "") + bar.operation];
  }
  const std::map<std::string, int> expected{
      {"broadcast", 1},       {"receive_async", 1},    {"~receive_async", 1}, {"send", 2},
      {"allreduce_async", 1}, {"~allreduce_async", 1}, {"wait", 2},           {"finish", 1}};
  EXPECT_EQ(counts, expected);
  const Bar& request = *find(timeline, 0, "allreduce_async", true);
  const Bar& start = *find(timeline, 0, "allreduce_async");
  EXPECT_EQ(request.bytes, 400U);
  EXPECT_TRUE(request.is_collective);
  EXPECT_FALSE(request.algorithm.empty());
  EXPECT_EQ(request.begin_us, start.begin_us);
  EXPECT_GE(request.end_us, start.end_us);
  EXPECT_EQ(find(timeline, 0, "receive_async", true)->tag, 5);
  EXPECT_EQ(find(timeline, 0, "send")->peer, 0);
}

TEST(a_trace, keeps_more_calls_than_there_is_room_for_in_memory) {
  const Folder folder;
  constexpr int calls = 20'000;
  {
    Options options;
    options.trace = folder / "job";
    Communicator world = init(options);
    for (int i = 0; i < calls; ++i) world.barrier();
  }
  int found = 0;
  std::string name;
  for (const auto& entry : std::filesystem::directory_iterator{std::filesystem::path{folder / ""}})
    name = entry.path();
  for (const Bar& bar : timeline_of({name}).bars) found += bar.operation == "barrier" ? 1 : 0;
  EXPECT_EQ(found, calls);
}

TEST(a_trace, that_cannot_be_written_is_a_warning_and_the_job_runs) {
  const auto [code, output] =
      run_ranks(2, "/nowhere/job", "single_elements_go_and_results_are_returned");
  EXPECT_EQ(code, 0) << output;
  EXPECT_THAT(
      output,
      HasSubstr("no trace: /nowhere/job.1.json (QPMESH_TRACE) cannot be written: No such file"));
}

TEST(a_call, inside_a_traced_one_is_refused_as_ever) {
  const Folder folder;
  Options options;
  options.trace = folder / "job";
  Communicator world = init(options);
  int got = 0;
  Request receiving = world.receive_async(got, 0);
  std::string refusal;
  receiving.on_end([&] {
    try {
      world.progress();
    } catch (const Error& error) {
      refusal = error.cause();
    }
  });
  world.send(7, 0);
  receiving.wait();
  for (int i = 0; i < 10 && refusal.empty(); ++i) world.progress();
  EXPECT_EQ(refusal, "another call of this context is still running");
  world.barrier();
}

TEST(a_traced_job, says_who_came_late) {
  const Folder folder;
  for (const std::string& more : {std::string{}, std::string{"QPMESH_THREADS=several"}}) {
    const auto [code, output] = run_ranks(3, folder / "job", "one_rank_is_late 200", more);
    ASSERT_EQ(code, 0) << output;
    Timeline timeline =
        timeline_of({folder / "job.0.json", folder / "job.1.json", folder / "job.2.json"});
    align(timeline);
    const auto late = late_ranks(timeline);
    EXPECT_TRUE(std::ranges::is_sorted(late, std::greater{}, &Late::late_us));
    // Three of them; a busy machine may hold another rank up for longer in one.
    EXPECT_GE(std::ranges::count_if(late,
                                    [](const Late& each) {
                                      return each.operation == "barrier" && each.rank == 1 &&
                                             each.late_us > 100'000;
                                    }),
              2);
    EXPECT_THAT(to_text(timeline, late), AllOf(HasSubstr("rank 1 came "), HasSubstr("to barrier")));
  }
}

TEST(the_launcher, says_who_is_in_which_call_and_who_is_not) {
  const auto [code, output] =
      run(fmt::format("{}/bin/qpmesh-run -np 3 --states 1 {} one_rank_is_late 1300",
                      QPMESH_BINARY_DIR, QPMESH_RANK_PROGRAM));
  EXPECT_EQ(code, 0) << output;
  EXPECT_THAT(output, AllOf(HasSubstr("after 1 s: "), HasSubstr(" s: 2 in barrier (0, 2: "),
                            HasSubstr(" s), 1 outside of calls (1: ")));
  EXPECT_THAT(output, Not(HasSubstr("QPMESH_STATES")));
}

TEST(a_killed_rank, leaves_what_it_wrote_until_then) {
  Timeline timeline;
  read_text(timeline, header(3, "a") + call(3, "barrier", 1, 10, 20) + ",\n{\"name\":\"barr");
  EXPECT_FALSE(timeline.ranks[0].whole);
  ASSERT_EQ(timeline.bars.size(), 1U);
  EXPECT_THAT(to_text(timeline, {}), HasSubstr("it did not end"));
}

TEST(clocks_of_two_hosts, are_brought_together_within_the_bounds_that_calls_give) {
  // The second host's clock is 1000 us ahead; both ranks leave when the last has come.
  Timeline timeline;
  read_text(timeline,
            header(0, "a") + call(0, "barrier", 1, 10, 50) + call(0, "barrier", 2, 100, 104));
  read_text(timeline,
            header(1, "b") + call(1, "barrier", 1, 1047, 1052) + call(1, "barrier", 2, 1080, 1103));
  align(timeline);
  // 100 - 1103 <= added <= 50 - 1047 from the calls.
  EXPECT_NEAR(timeline.ranks[1].added_us, -1000, 3);
  EXPECT_NEAR(timeline.ranks[1].error_us, 3, 0.01);
  EXPECT_EQ(timeline.ranks[0].added_us, 0);
  const auto late = late_ranks(timeline);
  ASSERT_EQ(late.size(), 2U);
  EXPECT_EQ(late[0].rank, 1);
  EXPECT_NEAR(late[0].late_us, 37, 3);
  EXPECT_EQ(late[1].rank, 0);
}

TEST(clocks_of_two_hosts, without_a_call_in_common_stay_as_they_are) {
  Timeline timeline;
  read_text(timeline, header(0, "a") + call(0, "barrier", 1, 10, 50));
  read_text(timeline, header(1, "b") + call(1, "barrier", 2, 5, 6));
  align(timeline);
  EXPECT_FALSE(timeline.ranks[1].aligned);
  EXPECT_THAT(to_text(timeline, late_ranks(timeline)), HasSubstr("no collective with the first"));
}

TEST(what_is_no_trace, is_refused_with_its_line) {
  const auto refusal = [](const std::string& text) -> std::string {
    Timeline timeline;
    try {
      read_text(timeline, text);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "none";
  };
  EXPECT_THAT(refusal("hello\n"), HasSubstr("text:1: it does not begin with ["));
  EXPECT_THAT(refusal("[\n]\n"), HasSubstr("it does not say whose it is"));
  EXPECT_THAT(refusal("[\n{},,\n]\n"), HasSubstr("text:2: it is no JSON"));
  EXPECT_THAT(refusal("[\n{\"ph\":\"X\"}\n]\n"), HasSubstr("text:2: "));
}

TEST(the_pictures, have_a_row_for_each_rank_and_a_mark_where_one_is_late) {
  Timeline timeline;
  read_text(timeline, header(0, "a") + call(0, "barrier", 1, 10, 50));
  read_text(timeline, header(1, "a") + call(1, "barrier", 1, 40, 50));
  const auto late = late_ranks(timeline);
  const std::string svg = to_svg(timeline, late);
  EXPECT_THAT(svg, AllOf(HasSubstr(">rank 0<"), HasSubstr(">rank 1<"),
                         HasSubstr("30.00 us late to barrier #1")));
  const auto whole = json::parse(to_json(timeline, late));
  int marks = 0;
  for (const json& event : whole) {
    EXPECT_GE(event.value("ts", 0.0), 0);
    if (event["ph"] == "i") ++marks;
  }
  EXPECT_EQ(marks, 1);
}

TEST(two_inits_of_a_rank, are_counted_together_and_once) {
  const std::string of_rank =
      R"({{"ph":"M","name":"process_name","pid":0,"args":{{"host":"a","process":{}}}}},)"
      "\n"
      R"({{"ph":"X","name":"barrier","pid":0,"tid":1,"ts":{},"dur":2,"args":{{}}}},)"
      "\n]\n";
  Timeline timeline;
  for (const int begin_us : {10, 50}) {
    std::istringstream file{"[\n" + fmt::format(fmt::runtime(of_rank), 7, begin_us)};
    read(timeline, file, "job");
  }
  const std::string text = to_text(timeline, {});
  EXPECT_THAT(text, HasSubstr("rank 0 on a: 2 calls, 0.004 ms"));
  EXPECT_EQ(text.find("rank 0", text.find("rank 0") + 1), std::string::npos);
  // Another process that is rank 0 of a context of its own.
  std::istringstream other{"[\n" + fmt::format(fmt::runtime(of_rank), 8, 90)};
  read(timeline, other, "job");
  EXPECT_THAT(to_text(timeline, {}), HasSubstr("rank 0 on a: 1 calls, 0.002 ms"));
}

TEST(two_processes_of_a_rank, have_the_clocks_of_their_hosts) {
  const std::string of_rank =
      R"({{"ph":"M","name":"process_name","pid":{0},"args":{{"host":"{1}","process":7}}}},)"
      "\n"
      R"({{"ph":"X","name":"barrier","pid":{0},"tid":1,"ts":{2},"dur":2,)"
      R"("args":{{"communicator":"{3}","number":1}}}},)"
      "\n]\n";
  Timeline timeline;
  const auto add = [&](int rank, const char* host, int begin_us, const char* communicator) {
    std::istringstream file{"[\n" +
                            fmt::format(fmt::runtime(of_rank), rank, host, begin_us, communicator)};
    read(timeline, file, "job");
  };
  add(0, "a", 1'000, "1");
  add(1, "b", 10, "1");
  add(0, "b", 500, "2");
  align(timeline);
  EXPECT_EQ(timeline.bars.at(0).begin_us, 1'000) << "in the order of one clock";
  EXPECT_EQ(timeline.bars.at(1).begin_us, 1'490);
  EXPECT_EQ(timeline.bars.at(2).begin_us, 1'000);
  const std::string text = to_text(timeline, late_ranks(timeline));
  EXPECT_THAT(text, HasSubstr("rank 0 on a: 1 calls"));
  EXPECT_THAT(text, HasSubstr("rank 0 on b: 1 calls"));
}

TEST(the_program, merges_draws_and_refuses) {
  const Folder folder;
  ASSERT_EQ(run_ranks(2, folder / "job", "one_rank_is_late").code, 0);
  const std::string tool = std::string{QPMESH_BINARY_DIR} + "/bin/qpmesh-trace ";
  const auto [code, output] =
      run(tool + fmt::format("{0}0.json {0}1.json -o {1} --svg {2}", folder / "job.",
                             folder / "all.json", folder / "all.svg"));
  EXPECT_EQ(code, 0) << output;
  EXPECT_THAT(output,
              AllOf(HasSubstr("rank 0 on "), HasSubstr("rank 1 on "), HasSubstr("barrier")));
  EXPECT_GT(json::parse(std::ifstream{folder / "all.json"}).size(), 8U);
  EXPECT_GT(std::filesystem::file_size(folder / "all.svg"), 1000U);
  const auto twice = run(tool + fmt::format("{0}0.json {0}0.json", folder / "job."));
  EXPECT_EQ(twice.code, 1);
  EXPECT_THAT(twice.output, HasSubstr("job.0.json is given twice"));
  EXPECT_EQ(run(tool).code, 2);
  const auto missing = run(tool + "/nowhere.json");
  EXPECT_EQ(missing.code, 1);
  EXPECT_THAT(missing.output, HasSubstr("/nowhere.json cannot be read"));
}

}  // namespace
}  // namespace qpmesh::trace
