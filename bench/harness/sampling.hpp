// SPDX-License-Identifier: MIT
// How times are taken. A sample is a batch of back-to-back calls between two clock reads: one clock
// read costs as much as a third of a small call. Its value is the slowest rank's time divided by
// the batch. All decisions follow from values that every rank shares, so that ranks never disagree
// on the number of calls.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace qpmesh::bench {

inline constexpr double sample_s_min = 20e-6;
inline constexpr std::size_t samples_default = 101;
// Time spent on one size and side, unless the user asked for a number of samples.
inline constexpr double side_s_max = 0.25;

// What sampling needs of the other ranks; collective.
struct Agreement {
  std::function<void()> align;  // returns about when every rank has called it
  std::function<void(std::span<double>)> max_over_ranks;  // element by element, in place
};

// Seconds that so many back-to-back calls take on this rank.
using TimedBatch = std::function<double(std::size_t calls)>;

// Of this call, again and again. With computing before each call, which looks at the clock and does
// nothing else, every call is timed by itself. A template, so that the call inside the timed loop
// is the caller's own and nothing more.
template <class Call>
TimedBatch timed_batch(Call call, double compute_s = 0) {
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  if (compute_s > 0) {
    return [=](std::size_t calls) {
      double time_s = 0;
      for (std::size_t i = 0; i < calls; ++i) {
        const auto begin = Clock::now();
        while (since(begin) < compute_s) {}
        const auto start = Clock::now();
        call();
        time_s += since(start);
      }
      return time_s;
    };
  }
  return [=](std::size_t calls) {
    const auto start = Clock::now();
    for (std::size_t i = 0; i < calls; ++i) call();
    return since(start);
  };
}

struct Batch {
  std::size_t calls = 1;
  double sample_s = 0;  // what it took on the slowest rank when it was chosen
};

// Doubles the calls until the slowest rank's sample lasts sample_s_min. The least of three trials
// counts, so that one preemption does not make a batch too short. Warms up what it measures.
Batch agree_batch(const TimedBatch& timed, const Agreement& agreement);

std::size_t sample_count(double sample_s, std::optional<std::size_t> wanted) noexcept;

// What is timed beside each other; baseline and limit may be empty.
struct Sides {
  TimedBatch ours;
  TimedBatch baseline{};  // another library
  TimedBatch limit{};     // the least that the machine must do
};

// Seconds per call, one value per sample. Those of a side that was there were taken next to
// ours_s[i].
struct Times {
  std::size_t batch_calls = 1;
  std::vector<double> ours_s;
  std::vector<double> baseline_s;
  std::vector<double> limit_s;
};

// Sides alternate as ABBA, so that a machine that drifts favours none.
Times take_samples(const Sides& sides, std::optional<std::size_t> wanted,
                   const Agreement& agreement);

}  // namespace qpmesh::bench
