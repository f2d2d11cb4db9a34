// SPDX-License-Identifier: MIT
// bench_scale: the time that each algorithm would take on thousands of ranks, by simulation and by
// its closed form.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "bench/harness/refuse.hpp"
#include "bench/harness/sizes.hpp"
#include "bench/scale/bounds.hpp"
#include "bench/scale/simulator.hpp"
#include "qpmesh/error.hpp"

namespace qpmesh::bench {
namespace {

using collectives::Algorithm;
using collectives::CallShape;
using collectives::Cost;

struct Settings {
  std::vector<int> ranks{1024, 4096, 16384};
  int ranks_per_node = 1;
  std::string collective = "allreduce";
  std::vector<std::string> bytes{"8", "4KiB", "1MiB", "64MiB"};
  std::string algorithm;
  std::string json_path;
  double messages_max = 20e6;
};

struct Row {
  const Algorithm* algorithm;
  CallShape shape;
  double bound_s;
  Cost closed;
  std::optional<Cost> simulated;  // none: too many messages
  double total_messages = 0;
  double wall_s = 0;
  bool best = false;

  const Cost& cost() const noexcept { return simulated ? *simulated : closed; }
  double percent_off() const noexcept {
    return simulated && simulated->time_s > 0 ? 100 * (closed.time_s / simulated->time_s - 1) : 0;
  }
  double to_bound() const noexcept { return bound_s > 0 ? cost().time_s / bound_s : 1; }
};

Collective collective_of(const std::string& name) {
  std::string known;
  for (const Algorithm* const row : collectives::algorithms()) {
    if (name_of(row->collective) == name) return row->collective;
    if (!known.ends_with(name_of(row->collective)))
      known += fmt::format("{}{}", known.empty() ? "" : ", ", name_of(row->collective));
  }
  refuse(fmt::format("'{}' is no collective", name), "known: " + known);
}

// Of all ranks together. Where one rank alone sends to each other one, most ranks send nothing.
double expected_messages(const Algorithm& algorithm, const CallShape& shape, const Cost& closed) {
  const bool from_root =
      algorithm.collective == Collective::broadcast || algorithm.collective == Collective::scatter;
  if (from_root && closed.messages == shape.ranks() - 1) return closed.messages;
  return closed.messages * shape.ranks();
}

bool has_equal_blocks(Collective collective) {
  return collective == Collective::allgather || collective == Collective::gather ||
         collective == Collective::scatter || collective == Collective::reduce_scatter ||
         collective == Collective::alltoall;
}

Row row_of(const Algorithm& algorithm, const CallShape& shape, double messages_max) {
  Row row{.algorithm = &algorithm,
          .shape = shape,
          .bound_s = lower_bound_s(algorithm.collective, shape, reference),
          .closed = algorithm.cost(shape, reference.model(shape)),
          .simulated = {}};
  row.total_messages = expected_messages(algorithm, shape, row.closed);
  if (row.total_messages > messages_max) return row;
  const auto began = std::chrono::steady_clock::now();
  const Prediction prediction = simulate(algorithm, shape, reference);
  row.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  row.simulated = prediction.cost;
  row.total_messages = prediction.total_messages;
  return row;
}

void print(const Row& row) {
  const std::string simulated =
      row.simulated
          ? fmt::format("{:>13.2f} {:>6.2f}", row.simulated->time_s * 1e6, row.percent_off())
          : fmt::format("{:>13} {:>6}", "-", "-");
  fmt::print(
      "{:>6} {:>10} {:>22} {} {:>13.2f} {:>8.0f} {:>8.0f} {:>12.0f} {:>12.0f} {:>7.2f} "
      "{:>7.2f}{}{}\n",
      row.shape.size, row.shape.bytes, row.algorithm->name, simulated, row.closed.time_s * 1e6,
      row.cost().messages, row.closed.messages, row.cost().bytes, row.closed.bytes, row.to_bound(),
      row.wall_s, row.best ? "  best" : "",
      row.simulated ? "" : fmt::format("  not simulated: {:.3g} messages", row.total_messages));
  std::fflush(stdout);
}

void write_json(const std::string& path, const std::vector<Row>& rows) {
  std::FILE* const file = std::fopen(path.c_str(), "w");
  if (file == nullptr)
    refuse(fmt::format("{} cannot be written", path), "name a file in a folder of yours");
  fmt::print(file, "[");
  for (const Row& row : rows) {
    const auto cost = [](const Cost& of) {
      return fmt::format(R"({{"time_s": {}, "messages": {}, "bytes": {}}})", of.time_s, of.messages,
                         of.bytes);
    };
    fmt::print(
        file,
        R"({}{{"collective": "{}", "ranks": {}, "bytes": {}, "algorithm": "{}", "simulated": {}, "closed": {}, )"
        R"("bound_s": {}, "total_messages": {}, "wall_s": {}, "best": {}}})",
        &row == rows.data() ? "\n" : ",\n", name_of(row.algorithm->collective), row.shape.size,
        row.shape.bytes, row.algorithm->name, row.simulated ? cost(*row.simulated) : "null",
        cost(row.closed), row.bound_s, row.total_messages, row.wall_s, row.best);
  }
  fmt::print(file, "\n]\n");
  std::fclose(file);
}

void run(const Settings& settings) {
  const Collective collective = collective_of(settings.collective);
  if (!settings.algorithm.empty() &&
      collectives::find_algorithm(collective, settings.algorithm) == nullptr)
    refuse(fmt::format("'{}' is no algorithm of {}", settings.algorithm, settings.collective),
           "leave --algorithm out to see all");
  const collectives::CostModel model = reference.model({});
  fmt::print(
      "# {}: LogGP with latency {} us, overhead {} us, {} ns a byte, {} ns a byte reduced, {} ns a "
      "byte "
      "copied\n"
      "# messages and bytes: of the rank that has most; bound: time over the lower bound of LogGP\n"
      "#{:>5} {:>10} {:>22} {:>13} {:>6} {:>13} {:>8} {:>8} {:>12} {:>12} {:>7} {:>7}\n",
      settings.collective, model.latency_s * 1e6, model.overhead_s * 1e6, model.byte_s * 1e9,
      model.reduced_byte_s * 1e9, model.copied_byte_s * 1e9, "ranks", "bytes", "algorithm",
      "simulated_us", "off_%", "closed_us", "messages", "closed", "bytes", "closed", "bound",
      "wall_s");
  std::vector<Row> all;
  for (const int size : settings.ranks) {
    for (const std::string& text : settings.bytes) {
      const auto ranks = static_cast<std::size_t>(size);
      CallShape shape{.size = size,
                      .bytes = collective == Collective::barrier ? 0 : parse_bytes(text)};
      if (settings.ranks_per_node > 1) {
        if (size % settings.ranks_per_node != 0 || size == settings.ranks_per_node)
          refuse(fmt::format("{} ranks are not several nodes of {}", size, settings.ranks_per_node),
                 "give multiples to --ranks");
        shape.levels = {.nodes = size / settings.ranks_per_node,
                        .node_ranks_min = settings.ranks_per_node,
                        .node_ranks_max = settings.ranks_per_node,
                        .in_order = true,
                        .load_memory = false};
      }
      if (has_equal_blocks(collective)) shape.bytes = (shape.bytes + ranks - 1) / ranks * ranks;
      std::vector<Row> rows;
      for (const Algorithm* const algorithm : collectives::algorithms(collective)) {
        if (algorithm->applies(shape) &&
            (settings.algorithm.empty() || algorithm->name == settings.algorithm))
          rows.push_back(row_of(*algorithm, shape, settings.messages_max));
      }
      if (rows.empty()) {
        fmt::print("{:>6} {:>10} {:>22} does not apply\n", size, shape.bytes, settings.algorithm);
        continue;
      }
      std::ranges::min_element(rows, {}, [](const Row& row) { return row.cost().time_s; })->best =
          true;
      for (const Row& row : rows) print(row);
      all.insert(all.end(), rows.begin(), rows.end());
      if (collective == Collective::barrier) break;
    }
  }
  if (!settings.json_path.empty()) write_json(settings.json_path, all);
}

int main_of(int argc, char** argv) {
  Settings settings;
  CLI::App app{"Runs the algorithms of a collective in virtual time under a LogGP model."};
  app.add_option("--ranks", settings.ranks, "Numbers of ranks (1024,4096,16384)")
      ->delimiter(',')
      ->check(CLI::Range(2, 1 << 20));
  app.add_option(
         "--ranks-per-node", settings.ranks_per_node,
         "Equally many on each node, which have one link and send messages inside it, too (1)")
      ->check(CLI::Range(1, 1 << 12));
  app.add_option("--collective", settings.collective, "Which one (allreduce)");
  app.add_option("--bytes", settings.bytes,
                 "Of the whole vector, with KiB, MiB or GiB (8,4KiB,1MiB,64MiB); blocks of equal "
                 "lengths are "
                 "rounded up")
      ->delimiter(',');
  app.add_option("--algorithm", settings.algorithm, "Only this one");
  app.add_option(
      "--messages-max", settings.messages_max,
      "Algorithms with more messages are not simulated, only their closed form is shown (20e6)");
  app.add_option("--json", settings.json_path, "Write the rows to this file too");
  CLI11_PARSE(app, argc, argv);
  try {
    run(settings);
  } catch (const Error& error) {
    fmt::print(stderr, "bench_scale: {}\n", error.what());
    return 2;
  }
  return 0;
}

}  // namespace
}  // namespace qpmesh::bench

int main(int argc, char** argv) { return qpmesh::bench::main_of(argc, argv); }
