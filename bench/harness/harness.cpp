// SPDX-License-Identifier: MIT
#include "bench/harness/harness.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <map>
#include <new>
#include <optional>

#include "bench/harness/best_row.hpp"
#include "bench/harness/google.hpp"
#include "bench/harness/refuse.hpp"
#include "bench/harness/report.hpp"
#include "bench/harness/sampling.hpp"
#include "bench/harness/sizes.hpp"
#include "bench/harness/verify.hpp"
#include "bootstrap/launcher.hpp"
#include "qpmesh/qpmesh.hpp"

namespace qpmesh::bench {
namespace {

constexpr int exit_wrong = 1;
constexpr int exit_error = 2;

// What --baseline calls our own algorithms.
constexpr std::string_view rows_baseline = "rows";

class Session {
 public:
  Session(const Program& program, const Settings& settings, Communicator& world)
      : program_{program}, settings_{settings}, world_{world}, limits_{world} {
    if (!settings.baseline.empty() && !beside_rows()) baseline_ = make_baseline();
  }

  std::size_t wrong_total() const noexcept { return wrong_total_; }

  std::string heading() const {
    return fmt::format(
        "# qpmesh {} bench_{}: ranks {}, usable cores {}, transport {}, buffers {}{}{}, baseline "
        "{}\n{}",
        QPMESH_VERSION, program_.name, world_.size(), limits_.usable_cores(),
        settings_.transport.empty() ? "automatic" : settings_.transport,
        settings_.buffers.kind == BufferKind::allocated ? "allocated" : "private",
        settings_.buffers.offset_bytes == 0
            ? ""
            : fmt::format(" at + {}", settings_.buffers.offset_bytes),
        settings_.compute_s == 0
            ? ""
            : fmt::format(", {:.0f} us of computing before each call", settings_.compute_s * 1e6),
        baseline_                    ? baseline_->name()
        : settings_.baseline.empty() ? "none"
                                     : settings_.baseline,
        format_columns(!settings_.baseline.empty()));
  }

  std::vector<Registered> benchmarks() {
    std::vector<Registered> list;
    for (const Series& series : program_.series) {
      if (baseline_ && !series.has_baseline) continue;
      const std::string family = program_.name + "/" + series.name;
      if (series.element_bytes == 0) {
        list.push_back({family, [this, &series] { return measure(series, 0); }});
        continue;
      }
      const std::size_t blocks = series.has_blocks ? static_cast<std::size_t>(world_.size()) : 1;
      for (const std::size_t bytes :
           sizes_between(settings_.bytes_min, settings_.bytes_max, series.element_bytes, blocks)) {
        list.push_back({fmt::format("{}/{}", family, bytes),
                        [this, &series, bytes] { return measure(series, bytes); }});
      }
    }
    return list;
  }

 private:
  std::unique_ptr<Baseline> make_baseline() {
    std::string known;
    for (const auto& kind : baselines()) {
      if (kind.name == settings_.baseline) return kind.make(world_);
      known += (known.empty() ? "" : ", ") + std::string{kind.name};
    }
    refuse(fmt::format("no baseline \"{}\" in this build", settings_.baseline),
           known.empty() ? "this build found no MPI: install libopenmpi-dev and build again"
                         : "known: " + known);
  }

  // Each series has its own: what a communicator has learnt of one, as with a root that moves, is
  // not what the next one would learn by itself.
  Communicator& own_communicator(const Series& series) {
    std::optional<Communicator>& own = own_communicators_[&series];
    if (!own) own = world_.split(0, world_.rank());
    return *own;
  }

  bool beside_rows() const noexcept { return settings_.baseline == rows_baseline; }

  Row measure(const Series& series, std::size_t bytes) {
    const auto subject = series.make(own_communicator(series), settings_.buffers, bytes);
    Row row;
    row.series = series.name;
    row.bytes = bytes;
    row.element_count = series.element_bytes == 0 ? 0 : bytes / series.element_bytes;
    row.bus_factor = series.bus_factor(world_.size());
    const bool check = settings_.check && subject->checkable();
    std::size_t wrong = 0;
    // Computing the reference of a large vector takes longer than the calls.
    if (check) wrong += checked_runs(*subject, bytes <= (std::size_t{1} << 20) ? 4 : 1);
    row.idle_gap_us = 1e6 * limits_.idle_gap_s();
    // Nothing to move has no limit.
    take_times(*subject,
               bytes == 0 ? nullptr : limits_.probe(series.limit, settings_.buffers, bytes), row);
    row.idle_gap_us = std::max(row.idle_gap_us, 1e6 * limits_.idle_gap_s());
    const Candidate algorithm = subject->algorithm();  // by now
    row.algorithm = algorithm.algorithm;
    if (algorithm.predicted_us > 0) row.predicted_us = algorithm.predicted_us;
    if (check) {
      wrong += checked_runs(*subject, 1);
      row.wrong = wrong;
      wrong_total_ += wrong;
    }
    if (!row.limit_share && bytes > 0) row.limit_share = share_of_least(series, bytes, row.p50_us);
    return row;
  }

  std::optional<double> share_of_least(const Series& series, std::size_t bytes, double p50_us) {
    const std::size_t copied_bytes =
        series.ends_with_a_block ? bytes / static_cast<std::size_t>(world_.size()) : bytes;
    const auto least_s = limits_.least_s(series.limit, copied_bytes);
    return least_s ? credible_share(*least_s, p50_us * 1e-6) : std::nullopt;
  }

  // A limit that was measured apart, and was beaten, had a busy neighbour: it says nothing about
  // the machine.
  static std::optional<double> credible_share(double least_s, double ours_s) {
    constexpr double noise = 1.1;
    return least_s <= noise * ours_s ? std::optional{least_s / ours_s} : std::nullopt;
  }

  void take_times(Case& subject, const std::function<void()>& limit, Row& row) {
    const Agreement agreement{
        .align = [this] { world_.barrier(); },
        .max_over_ranks =
            [this](std::span<double> values) { world_.allreduce(values, qpmesh::max); }};
    const double compute_s = settings_.compute_s;
    Sides sides{.ours = timed_batch([&subject] { subject.run(); }, compute_s)};
    if (baseline_) {
      sides.baseline =
          timed_batch([&subject, this] { subject.run_baseline(*baseline_); }, compute_s);
    }
    // Whoever yields by hand gives whole slices to neighbours, and ours would be measured in their
    // wake: apart, where cores are shared.
    const bool apart = limits_.crowded();
    if (limit && !apart) sides.limit = timed_batch(limit);
    const Times times = take_samples(sides, settings_.samples, agreement);

    const double us_per_run = 1e6 / subject.operations_per_run();
    row.batch_calls = times.batch_calls;
    row.samples = times.ours_s.size();
    row.sample_us = 1e6 * quantile(times.ours_s, 0.5) * static_cast<double>(times.batch_calls);
    row.p50_us = us_per_run * quantile(times.ours_s, 0.5);
    row.p99_us = us_per_run * quantile(times.ours_s, 0.99);
    if (!times.limit_s.empty()) row.limit_share = ratios(times.ours_s, times.limit_s).median;
    if (limit && apart) {
      const Times its = take_samples({.ours = timed_batch(limit)}, settings_.samples, agreement);
      row.limit_share = credible_share(quantile(its.ours_s, 0), quantile(times.ours_s, 0.5));
    }
    if (baseline_) {
      row.baseline = Comparison{.p50_us = us_per_run * quantile(times.baseline_s, 0.5),
                                .ratio = ratios(times.ours_s, times.baseline_s)};
    }
    if (beside_rows()) row.baseline = best_row(subject, settings_.samples, compute_s, agreement);
  }

  // Back to back with a new seed each and no barrier between, so that a rank that runs ahead meets
  // one that still reads. Returns wrong elements over all ranks.
  std::size_t checked_runs(Case& subject, int runs) {
    std::uint64_t wrong = 0;
    for (int i = 0; i < runs; ++i) {
      const std::uint64_t seed = ++seed_;
      subject.prepare(seed);
      subject.run();
      if (settings_.corrupt) corrupt(subject, seed);
      wrong += subject.wrong(seed);
    }
    world_.allreduce(std::span{&wrong, 1}, qpmesh::sum);
    if (baseline_ && baseline_->delivers()) check_baseline(subject);
    return wrong;
  }

  // The lowest rank that received something flips one byte of it.
  void corrupt(Case& subject, std::uint64_t seed) {
    const auto received = subject.output();
    std::int32_t unlucky = received.empty() ? world_.size() : world_.rank();
    world_.allreduce(std::span{&unlucky, 1}, qpmesh::min);
    if (unlucky == world_.size()) {
      refuse(fmt::format("--corrupt: {} delivers no bytes to flip", program_.name),
             "leave the option out");
    }
    if (unlucky == world_.rank()) flip_one_byte(received, seed);
  }

  // A comparison with a wrong answer is no comparison.
  void check_baseline(Case& subject) {
    const std::uint64_t seed = ++seed_;
    subject.prepare(seed);
    subject.run_baseline(*baseline_);
    std::uint64_t wrong = subject.wrong(seed);
    world_.allreduce(std::span{&wrong, 1}, qpmesh::sum);
    if (wrong > 0) {
      throw Error(
          {.code = ErrorCode::internal,
           .operation = "benchmark",
           .cause = fmt::format("the baseline {} gave {} wrong elements", baseline_->name(), wrong),
           .hint = ""});
    }
  }

  const Program& program_;
  const Settings& settings_;
  Communicator& world_;
  Limits limits_;
  std::unique_ptr<Baseline> baseline_;
  std::map<const Series*, std::optional<Communicator>> own_communicators_;
  std::uint64_t seed_ = 0;
  std::size_t wrong_total_ = 0;
};

Options library_options(const Program& program, const Settings& settings) {
  // The library says what a transport may be called.
  if (!settings.transport.empty()) {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): one thread
    ::setenv("QPMESH_TRANSPORT", settings.transport.c_str(), 1);
  }
  Options options = Options::from_environment();
  if (!settings.algorithm.empty()) {
    if (program.collectives.empty()) {
      refuse(fmt::format("--algorithm {}: {} is no collective", settings.algorithm, program.name),
             "leave the option out");
    }
    options.algorithms.clear();
    for (const Collective collective : program.collectives) {
      options.algorithms += fmt::format("{}{}={}", options.algorithms.empty() ? "" : ",",
                                        name_of(collective), settings.algorithm);
    }
  }
  return options;
}

// rank is set as soon as init knows it, for the error that may follow.
int run_session(const Program& program, const Settings& settings, int& rank) {
  Communicator world = init(library_options(program, settings));
  rank = world.rank();
  if (world.size() < program.ranks_min) {
    refuse(fmt::format("{} ranks, but bench_{} needs {}", world.size(), program.name,
                       program.ranks_min),
           fmt::format("mpirun -np {0} bench_{1}, or qpmesh-run -np {0} bench_{1}",
                       program.ranks_min, program.name));
  }
  std::size_t wrong = 0;
  {
    Session session{program, settings, world};
    const std::size_t matched =
        run_registered("bench_" + program.name, settings.benchmark_flags, world.rank() == 0,
                       session.heading(), session.benchmarks());
    if (matched == 0) {
      refuse("no benchmark matches --benchmark_filter", "--benchmark_list_tests names them");
    }
    wrong = session.wrong_total();
  }
  world.finish();
  return wrong == 0 ? 0 : exit_wrong;
}

// For what is said before init. An environment that makes no sense is init's to report.
int rank_by_launcher() {
  try {
    return bootstrap::identify(bootstrap::process_environment()).rank;
  } catch (const Error&) {
    return 0;
  }
}

}  // namespace

Candidate chosen_algorithm(const Communicator& world, Collective collective, std::size_t bytes) {
  for (const Candidate& candidate : world.explain(collective, bytes)) {
    if (candidate.chosen) return candidate;
  }
  return {.algorithm = "-"};
}

std::vector<std::string> applicable_algorithms(const Communicator& world, Collective collective,
                                               std::size_t bytes) {
  std::vector<std::string> names;
  for (const Candidate& candidate : world.explain(collective, bytes)) {
    if (candidate.applies) names.emplace_back(candidate.algorithm);
  }
  return names;
}

int run_program(const Program& program, int argc, char** argv) {
  const std::string name = "bench_" + program.name;
  int rank = rank_by_launcher();
  try {
    const Settings settings =
        parse_arguments(name, std::vector<std::string>(argv + 1, argv + argc));
    if (!settings.help.empty()) {
      if (rank == 0) std::fputs(settings.help.c_str(), stdout);
      return 0;
    }
    return run_session(program, settings, rank);
  } catch (const Error& error) {
    const bool another_says_it = is_refusal(error) && rank != 0;
    if (!another_says_it)
      std::fprintf(stderr, "%s: rank %d: %s\n", name.c_str(), rank, error.what());
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr,
                 "%s: rank %d: no memory for buffers of this size [hint: a smaller --max-bytes]\n",
                 name.c_str(), rank);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: rank %d: %s\n", name.c_str(), rank, error.what());
  }
  return exit_error;
}

}  // namespace qpmesh::bench
