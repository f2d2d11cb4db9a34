// SPDX-License-Identifier: MIT
#include "bench/harness/sampling.hpp"

#include <algorithm>
#include <cmath>

#include "bench/harness/statistics.hpp"

namespace qpmesh::bench {
namespace {

double aligned_sample(const TimedBatch& timed, std::size_t calls, const Agreement& agreement) {
  agreement.align();
  return timed(calls);
}

// The first calls of an operation touch its memory for the first time, and find ranks that still
// sleep: by them a batch would be far too short.
void warm_up(const TimedBatch& timed, const Agreement& agreement) {
  constexpr std::size_t warm_up_calls = 64;
  constexpr double short_call_s = 1e-3;
  double once[1]{aligned_sample(timed, 1, agreement)};
  agreement.max_over_ranks(once);
  if (once[0] < short_call_s) aligned_sample(timed, warm_up_calls, agreement);
}

}  // namespace

Batch agree_batch(const TimedBatch& timed, const Agreement& agreement) {
  warm_up(timed, agreement);
  constexpr std::size_t calls_max = std::size_t{1}
                                    << 20;  // a call that takes no time at all still ends this loop
  for (std::size_t calls = 1;; calls *= 2) {
    double trials[3];
    for (double& trial : trials) trial = aligned_sample(timed, calls, agreement);
    agreement.max_over_ranks(trials);
    const double least = *std::ranges::min_element(trials);
    if (least >= sample_s_min || calls == calls_max) return {.calls = calls, .sample_s = least};
  }
}

std::size_t sample_count(double sample_s, std::optional<std::size_t> wanted) noexcept {
  if (wanted) return *wanted;
  const double affordable = side_s_max / std::max(sample_s, sample_s_min);
  return static_cast<std::size_t>(std::clamp(std::floor(affordable), static_cast<double>(pairs_min),
                                             static_cast<double>(samples_default)));
}

Times take_samples(const Sides& sides, std::optional<std::size_t> wanted,
                   const Agreement& agreement) {
  Times times;
  struct Side {
    const TimedBatch& timed;
    std::vector<double>& samples_s;
  };
  std::vector<Side> present{{sides.ours, times.ours_s}};
  if (sides.baseline) present.push_back({sides.baseline, times.baseline_s});
  if (sides.limit) present.push_back({sides.limit, times.limit_s});

  Batch batch;
  for (const Side& side : present) {
    const Batch its = agree_batch(side.timed, agreement);
    batch.calls = std::max(batch.calls, its.calls);
    batch.sample_s = std::max(batch.sample_s, its.sample_s);
  }
  times.batch_calls = batch.calls;
  const std::size_t count = sample_count(batch.sample_s, wanted);
  for (std::size_t i = 0; i < count; ++i) {
    const auto take = [&](const Side& side) {
      side.samples_s.push_back(aligned_sample(side.timed, batch.calls, agreement));
    };
    if (i % 2 == 0) {
      std::for_each(present.begin(), present.end(), take);
    } else {
      std::for_each(present.rbegin(), present.rend(), take);
    }
  }

  for (const Side& side : present) {
    agreement.max_over_ranks(side.samples_s);
    for (double& sample_s : side.samples_s) sample_s /= static_cast<double>(batch.calls);
  }
  return times;
}

}  // namespace qpmesh::bench
