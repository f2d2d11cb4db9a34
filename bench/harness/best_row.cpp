// SPDX-License-Identifier: MIT
#include "bench/harness/best_row.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "bench/harness/statistics.hpp"

namespace qpmesh::bench {
namespace {

// Until a communicator has found out which algorithm is the fastest: so many calls, and for so
// long.
constexpr std::size_t calls_until_chosen = 100;
constexpr double until_chosen_s = 30e-3;
constexpr std::size_t turns_default = 15;
// In a turn an algorithm runs for so long before it is timed, and so long while it is; a long call,
// which fills its staging by itself, so many times at least.
constexpr double settling_s = 200e-6;
constexpr double timed_s = 400e-6;
constexpr double calls_min = 3;
constexpr double calls_max = 1 << 16;
// Far behind the fastest after so many turns: out.
constexpr std::size_t turns_of_all = 2;
constexpr double far_behind = 1.5;

struct Side {
  std::string algorithm;          // empty: the chosen one
  std::vector<double> times_s{};  // of a call, one a turn; of the slowest rank
};

std::size_t calls_in(double wanted_s, double call_s) {
  return static_cast<std::size_t>(std::clamp(std::ceil(wanted_s / call_s), calls_min, calls_max));
}

}  // namespace

std::optional<Comparison> best_row(Case& subject, std::optional<std::size_t> turns,
                                   double compute_s, const Agreement& agreement) {
  std::vector<Side> sides{{.algorithm = ""}};
  for (std::string& algorithm : subject.algorithms())
    sides.push_back({.algorithm = std::move(algorithm)});
  if (sides.size() == 1) return std::nullopt;

  const TimedBatch timed = timed_batch([&subject] { subject.run(); }, compute_s);
  const Batch batch = agree_batch(timed, agreement);
  const double call_s = batch.sample_s / static_cast<double>(batch.calls);
  timed(std::max(calls_until_chosen, calls_in(until_chosen_s, call_s)));
  const std::size_t settling_calls = calls_in(settling_s, call_s);
  const std::size_t timed_calls = calls_in(timed_s, call_s);

  const auto take = [&](Side& side) {
    subject.force(side.algorithm);
    agreement.align();
    timed(settling_calls);
    side.times_s.push_back(timed(timed_calls) / static_cast<double>(timed_calls));
  };
  const auto leave_those_behind = [&] {
    std::vector<double> least_s;
    least_s.reserve(sides.size());
    for (const Side& side : sides) least_s.push_back(*std::ranges::min_element(side.times_s));
    agreement.max_over_ranks(least_s);
    const double best_s = *std::ranges::min_element(least_s);
    std::vector<Side> left;
    for (std::size_t i = 0; i < sides.size(); ++i) {
      if (sides[i].algorithm.empty() || least_s[i] <= far_behind * best_s)
        left.push_back(std::move(sides[i]));
    }
    sides = std::move(left);
  };
  const std::size_t turn_count = turns.value_or(turns_default);
  for (std::size_t turn = 0; turn < turn_count; ++turn) {
    if (turn == turns_of_all) leave_those_behind();
    // From one after another, and every other turn backwards: each follows each.
    std::rotate(sides.begin(), sides.begin() + 1, sides.end());
    if (turn % 2 == 0) std::for_each(sides.begin(), sides.end(), take);
    else std::for_each(sides.rbegin(), sides.rend(), take);
  }
  subject.force("");
  for (Side& side : sides) agreement.max_over_ranks(side.times_s);

  const Side& chosen = *std::ranges::find(sides, std::string{}, &Side::algorithm);
  const std::string_view chosen_name = subject.algorithm().algorithm;
  std::optional<Comparison> best;
  std::optional<double> itself;
  for (const Side& side : sides) {
    if (&side == &chosen) continue;
    const Quartiles ratio = ratios(chosen.times_s, side.times_s);
    if (side.algorithm == chosen_name) itself = ratio.median;
    if (best && best->ratio.median <= ratio.median) continue;
    best = Comparison{
        .p50_us = 1e6 * quantile(side.times_s, 0.5), .ratio = ratio, .name = side.algorithm};
  }
  if (best) best->itself = itself;
  return best;
}

}  // namespace qpmesh::bench
