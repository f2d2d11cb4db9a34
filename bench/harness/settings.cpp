// SPDX-License-Identifier: MIT
#include "bench/harness/settings.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "bench/harness/refuse.hpp"
#include "bench/harness/sizes.hpp"
#include "bench/harness/statistics.hpp"

namespace qpmesh::bench {
namespace {

constexpr std::string_view google_flags_help =
    "Of Google Benchmark: --benchmark_filter=<regex> --benchmark_list_tests "
    "--benchmark_out=<file>\n"
    "  --benchmark_out_format=<json|csv> --benchmark_repetitions=<n>; rank 0 alone writes files.";

constexpr std::int64_t samples_max = 1'000'000;  // kept until the median is taken
constexpr std::int64_t compute_us_max = 1'000'000;

// Flags whose meaning several ranks cannot share, and why.
constexpr std::pair<std::string_view, std::string_view> refused_google_flags[] = {
    {"--benchmark_enable_random_interleaving",
     "every rank would draw its own order, and ranks in different benchmarks wait for each other "
     "for ever"},
    {"--benchmark_format",
     "rows are printed by this program's own reporter; write a file with --benchmark_out"},
    {"--benchmark_min_time", "the harness takes the samples; set their number with --samples"},
};

void check_google_flag(const std::string& flag) {
  const std::string_view name = std::string_view{flag}.substr(0, flag.find('='));
  for (const auto& [refused, reason] : refused_google_flags) {
    if (name == refused && !flag.ends_with("=false")) {
      refuse(fmt::format("{} is not possible here", flag), std::string{reason});
    }
  }
}

std::vector<std::string> long_option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const auto& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

}  // namespace

Settings parse_arguments(const std::string& program, const std::vector<std::string>& arguments) {
  Settings settings;
  std::string bytes_min;
  std::string bytes_max;
  std::int64_t samples = 0;  // signed: -3 is a mistake, and no large number
  std::string buffers;
  std::int64_t offset_bytes = 0;
  std::int64_t compute_us = 0;

  CLI::App app{"Measures and verifies one operation of qpmesh over the ranks of this job.",
               program};
  app.footer(std::string{google_flags_help});
  app.allow_extras();  // so that the error can name the nearest option
  app.add_option("--min-bytes", bytes_min,
                 "Smallest size: a number, alone or with KiB, MiB or GiB (4)");
  app.add_option("--max-bytes", bytes_max, "Largest size; sizes double from the smallest (16MiB)");
  app.add_flag("--check,!--no-check", settings.check,
               "Verify every element before and after timing (on)");
  app.add_flag("--corrupt", settings.corrupt,
               "Flip one received byte before each check: the check must notice, exit code 1");
  app.add_option("--algorithm", settings.algorithm, "Force an algorithm by its name");
  app.add_option("--transport", settings.transport, "Use only this transport");
  app.add_option("--buffers", buffers,
                 "private: malloc; allocated: Communicator::allocate, zero copy (private)")
      ->check(CLI::IsMember({"private", "allocated"}));
  app.add_option("--offset", offset_bytes,
                 "What is received lies so many bytes behind the start of a page (0)");
  app.add_option("--compute-us", compute_us,
                 "Compute so long before each call; each call is timed by itself then (0)");
  app.add_option("--baseline", settings.baseline,
                 "Alternate with another library on the same buffers (mpi), with the device itself "
                 "(verbs), or with the best algorithm for each size, forced (rows)");
  auto* samples_option = app.add_option(
      "--samples", samples, "Samples per size; without it 101, fewer where calls are long");

  std::vector<std::string> own;
  for (const auto& argument : arguments) {
    if (argument.starts_with("--benchmark_")) {
      check_google_flag(argument);
      settings.benchmark_flags.push_back(argument);
    } else {
      own.push_back(argument);
    }
  }
  std::ranges::reverse(own);  // CLI11 takes a vector last argument first
  try {
    app.parse(own);
  } catch (const CLI::CallForHelp&) {
    settings.help = app.help();
    return settings;
  } catch (const CLI::ParseError& error) {
    refuse(error.what(), fmt::format("{} --help", program));
  }
  if (const auto unknown = app.remaining(); !unknown.empty()) {
    const std::string name = unknown.front().substr(0, unknown.front().find('='));
    const std::string near = base::nearest(name, long_option_names(app), 2);
    refuse(fmt::format("unknown option {}", name),
           near.empty() ? fmt::format("{} --help lists the options", program)
                        : fmt::format("did you mean {}?", near));
  }

  if (!bytes_min.empty()) settings.bytes_min = parse_bytes(bytes_min);
  if (!bytes_max.empty()) settings.bytes_max = parse_bytes(bytes_max);
  if (buffers == "allocated") settings.buffers.kind = BufferKind::allocated;
  if (offset_bytes < 0 || offset_bytes >= 4096 || offset_bytes % 4 != 0)
    refuse(fmt::format("--offset {}", offset_bytes), "a multiple of 4 below 4096");
  settings.buffers.offset_bytes = static_cast<std::size_t>(offset_bytes);
  if (compute_us < 0 || compute_us > compute_us_max)
    refuse(fmt::format("--compute-us {}", compute_us), fmt::format("0 to {}", compute_us_max));
  settings.compute_s = static_cast<double>(compute_us) * 1e-6;
  if (settings.corrupt && !settings.check) {
    refuse("--corrupt with --no-check: nothing would notice the flipped byte",
           "leave one of the two out");
  }
  if (samples_option->count() > 0) {
    if (samples < static_cast<std::int64_t>(pairs_min)) {
      refuse(fmt::format("--samples {} is too few for a median with quartiles", samples),
             fmt::format("at least {}", pairs_min));
    }
    if (samples > samples_max)
      refuse(fmt::format("--samples {} is too many", samples),
             fmt::format("at most {}", samples_max));
    settings.samples = static_cast<std::size_t>(samples);
  }
  return settings;
}

}  // namespace qpmesh::bench
