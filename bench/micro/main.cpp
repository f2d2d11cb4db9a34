// SPDX-License-Identifier: MIT
// bench_micro: the machine's limits, our innermost steps and reductions, as medians of samples.
// What has a reference (a flag exchange between two cores, libc's copy, the scalar kernel) is
// compared with it, sample by sample; exit code 1 when something costs more than its bound.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <exception>

#include "bench/harness/statistics.hpp"
#include "bench/micro/probe.hpp"
#include "topology/cores.hpp"

namespace {

using namespace qpmesh::bench;

constexpr int samples = 25;

struct Bound {
  std::string name;
  Quartiles share;
  double share_max;
};

void run_probe(benchmark::State& state, const Probe& probe, std::vector<Bound>& bounds) {
  std::vector<double> ns;
  std::vector<double> reference_ns;
  for ([[maybe_unused]] auto iteration : state) {
    static_cast<void>(probe.sample_ns());  // warms up
    for (int i = 0; i < samples; ++i) {
      ns.push_back(probe.sample_ns());
      if (probe.reference_ns) reference_ns.push_back(probe.reference_ns());
    }
    state.SetIterationTime(quantile(ns, 0.5) * 1e-9);
  }
  const Quartiles q = quartiles(ns);
  state.counters["q1_ns"] = q.lower;
  state.counters["q3_ns"] = q.upper;
  if (probe.bytes > 0) state.counters["GB_per_s"] = probe.bytes / q.median;
  if (!probe.reference_ns) return;
  const Quartiles share = ratios(reference_ns, ns);
  state.counters["share"] = share.median;
  if (probe.share_max > 0) bounds.push_back({probe.name, share, probe.share_max});
}

CorePair choose_cores() {
  const auto cores = qpmesh::topology::usable_cores().cores;
  return cores.empty() ? CorePair{} : CorePair{.first = cores.front(), .second = cores.back()};
}

}  // namespace

int main(int argc, char** argv) try {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  const CorePair cores = choose_cores();
  std::vector<Probe> probes = machine_probes(cores);
  for (auto& probe : own_probes(cores)) probes.push_back(std::move(probe));
  for (auto& probe : kernel_probes(cores)) probes.push_back(std::move(probe));
  for (auto& probe : call_probes(cores)) probes.push_back(std::move(probe));
  std::vector<Bound> bounds;
  for (const Probe& probe : probes) {
    benchmark::RegisterBenchmark(probe.name.c_str(),
                                 [&](benchmark::State& state) { run_probe(state, probe, bounds); })
        ->Iterations(1)
        ->UseManualTime();
  }
  benchmark::RunSpecifiedBenchmarks();
  if (!cores.distinct())
    std::puts(
        "one usable core: nothing between cores was measured, and no bound by a flag exchange "
        "checked");
  bool all_kept = true;
  for (const auto& [name, share, share_max] : bounds) {
    const bool kept = share.median <= share_max;
    all_kept = all_kept && kept;
    std::printf("%s: %.2f [%.2f %.2f] of its reference, allowed %.2f: %s\n", name.c_str(),
                share.median, share.lower, share.upper, share_max, kept ? "kept" : "too slow");
  }
  return all_kept ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "bench_micro: %s\n", error.what());
  return 2;
}
