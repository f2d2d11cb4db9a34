// SPDX-License-Identifier: MIT
// qpmesh-trace: the timelines of a job's ranks (QPMESH_TRACE) on one clock, and who was late.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "tools/pages/pages.hpp"
#include "tools/print.hpp"
#include "tools/trace/timeline.hpp"

namespace {

namespace trace = qpmesh::trace;

constexpr int failure_code = 1;
constexpr int usage_code = 2;

// What lies in that part of the job, in milliseconds from its first call on.
void keep(trace::Timeline& timeline, double from_ms, double to_ms) {
  double zero_us = std::numeric_limits<double>::infinity();
  for (const trace::Bar& bar : timeline.bars) zero_us = std::min(zero_us, bar.begin_us);
  std::erase_if(timeline.bars, [&](const trace::Bar& bar) {
    return bar.end_us < zero_us + from_ms * 1e3 || bar.begin_us > zero_us + to_ms * 1e3;
  });
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "qpmesh-trace [options] FILE...\n"
      "Reads what the ranks of a job with QPMESH_TRACE=NAME wrote (NAME.0.json, NAME.1.json, ...), "
      "brings the clocks of their hosts together, and says how long each rank was in which calls, "
      "and who came late to collectives.",
      "qpmesh-trace"};
  qpmesh::pages::add_to(app, "puts the timelines of a job's ranks together");
  std::vector<std::string> files;
  std::string output;
  std::string svg;
  double from_ms = 0;
  double to_ms = std::numeric_limits<double>::infinity();
  app.add_option("FILE", files, "of each rank")->required();
  app.add_option("-o,--output", output, "writes one file of all for ui.perfetto.dev");
  app.add_option("--svg", svg, "writes a picture");
  app.add_option("--from", from_ms, "leaves out what ends before, in ms from the first call on");
  app.add_option("--to", to_ms, "leaves out what begins behind it, in ms");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : usage_code;
  }
  try {
    trace::Timeline timeline;
    for (const std::string& name : files) {
      std::ifstream file{name};
      if (!file) throw std::runtime_error{fmt::format("{} cannot be read", name)};
      if (std::ranges::count(files, name) > 1)
        throw std::runtime_error{fmt::format("{} is given twice", name)};
      trace::read(timeline, file, name);
    }
    trace::align(timeline);
    keep(timeline, from_ms, to_ms);
    const auto late = trace::late_ranks(timeline);
    if (!output.empty()) qpmesh::write_file(output, to_json(timeline, late));
    if (!svg.empty()) qpmesh::write_file(svg, to_svg(timeline, late));
    qpmesh::print(to_text(timeline, late));
  } catch (const std::exception& error) {
    fmt::print(stderr, "qpmesh-trace: {}\n", error.what());
    return failure_code;
  }
  return 0;
}
