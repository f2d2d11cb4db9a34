// SPDX-License-Identifier: MIT
#include "bench/harness/google.hpp"

#include <benchmark/benchmark.h>

#include <cstdio>
#include <ostream>
#include <streambuf>

#include "base/text.hpp"
#include "bench/harness/refuse.hpp"

namespace qpmesh::bench {
namespace {

class NullBuffer final : public std::streambuf {
  int_type overflow(int_type character) override { return traits_type::not_eof(character); }
};

// Prints rows as they come; on a silent rank, nothing at all, not even what
// Google Benchmark itself has to say.
class RowReporter final : public benchmark::BenchmarkReporter {
 public:
  RowReporter(bool speaks, std::string heading) : speaks_{speaks}, heading_{std::move(heading)} {
    if (speaks_) return;
    SetOutputStream(&nowhere_);
    SetErrorStream(&nowhere_);
  }

  void add(const Row& row) { pending_.push_back(row); }

  bool ReportContext(const Context& /*context*/) override {
    if (speaks_) std::printf("%s\n", heading_.c_str());
    return true;
  }
  void ReportRuns(const std::vector<Run>& /*runs*/) override {
    for (const Row& row : pending_) {
      if (speaks_) print(row);
    }
    pending_.clear();
    std::fflush(stdout);
  }

 private:
  void print(const Row& row) {
    if (row.series != series_) {
      series_ = row.series;
      std::printf("# %s\n", series_.c_str());
    }
    std::printf("%s\n", format_row(row).c_str());
  }

  bool speaks_;
  std::string heading_;
  std::string series_;
  std::vector<Row> pending_;
  NullBuffer null_buffer_;
  std::ostream nowhere_{&null_buffer_};
};

void set_counters(benchmark::State& state, const Row& row) {
  auto& counters = state.counters;
  counters["bytes"] = static_cast<double>(row.bytes);
  counters["count"] = static_cast<double>(row.element_count);
  counters["p50_us"] = row.p50_us;
  counters["p99_us"] = row.p99_us;
  counters["algbw"] = row.algorithm_bandwidth();
  counters["busbw"] = row.bus_bandwidth();
  counters["batch"] = static_cast<double>(row.batch_calls);
  counters["samples"] = static_cast<double>(row.samples);
  counters["idle_gap_us"] = row.idle_gap_us;
  counters["disturbed"] = row.disturbed() ? 1 : 0;
  if (row.wrong) counters["wrong"] = static_cast<double>(*row.wrong);
  if (row.predicted_us) counters["predicted_us"] = *row.predicted_us;
  if (row.limit_share) counters["limit_share"] = *row.limit_share;
  if (row.baseline) {
    counters["baseline_p50_us"] = row.baseline->p50_us;
    counters["ratio"] = row.baseline->ratio.median;
    counters["ratio_q1"] = row.baseline->ratio.lower;
    counters["ratio_q3"] = row.baseline->ratio.upper;
  }
  state.SetLabel(row.algorithm);
}

// program must live until the report: Google Benchmark keeps a pointer to its name.
void initialize(const std::string& program, const std::vector<std::string>& flags, bool speaks) {
  std::vector<std::string> words;
  words.insert(words.end(), flags.begin(), flags.end());
  // Last words win, over BENCHMARK_… variables too: every rank runs the list in
  // its order, and one rank writes the file.
  words.emplace_back("--benchmark_enable_random_interleaving=false");
  if (!speaks) words.emplace_back("--benchmark_out=");
  std::vector<char*> pointers{const_cast<char*>(program.c_str())};  // not written to
  pointers.reserve(words.size() + 2);
  for (auto& word : words) pointers.push_back(word.data());
  // Google Benchmark would measure nothing, and end well.
  for (const std::string& flag : flags) {
    const std::string value = flag.substr(std::min(flag.find('=') + 1, flag.size()));
    if (flag.starts_with("--benchmark_repetitions=") &&
        (value.empty() || value.front() == '-' || value == "0"))
      refuse(flag + " measures nothing", "give 1 or more");
    if (flag.starts_with("--benchmark_out_format=") && value != "json" && value != "csv")
      refuse(flag + " is no form of a file", "give json or csv");
  }
  int count = static_cast<int>(pointers.size());
  pointers.push_back(nullptr);
  benchmark::Initialize(&count, pointers.data());
  if (count > 1) {
    const std::string unknown = pointers[1];
    const std::string name = unknown.substr(0, unknown.find('='));
    const std::string near =
        base::nearest(name,
                      {"--benchmark_filter", "--benchmark_list_tests", "--benchmark_out",
                       "--benchmark_out_format", "--benchmark_repetitions",
                       "--benchmark_report_aggregates_only", "--benchmark_context"},
                      2);
    refuse("Google Benchmark does not know, or cannot read, " + unknown,
           near.empty() ? program + " --help lists the options" : "did you mean " + near + "?");
  }
}

}  // namespace

std::size_t run_registered(const std::string& program, const std::vector<std::string>& flags,
                           bool speaks, const std::string& heading,
                           const std::vector<Registered>& benchmarks) {
  initialize(program, flags, speaks);
  RowReporter reporter{speaks, heading};
  for (const auto& registered : benchmarks) {
    benchmark::RegisterBenchmark(registered.name.c_str(),
                                 [&reporter, &registered](benchmark::State& state) {
                                   for ([[maybe_unused]] auto iteration : state) {
                                     const Row row = registered.run();
                                     state.SetIterationTime(row.p50_us * 1e-6);
                                     set_counters(state, row);
                                     reporter.add(row);
                                   }
                                 })
        ->Iterations(1)
        ->UseManualTime()
        ->Unit(benchmark::kMicrosecond);
  }
  const std::size_t matched = benchmark::RunSpecifiedBenchmarks(&reporter);
  benchmark::ClearRegisteredBenchmarks();
  return matched;
}

}  // namespace qpmesh::bench
