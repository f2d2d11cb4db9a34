// SPDX-License-Identifier: MIT
#include "bench/harness/statistics.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <vector>

#include "qpmesh/error.hpp"

namespace qpmesh::bench {
namespace {

double quantile_of_sorted(std::span<const double> sorted, double fraction) {
  const double position = fraction * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(position));
  const auto above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (position - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

std::vector<double> sorted(std::span<const double> samples) {
  if (samples.empty()) {
    throw Error({.code = ErrorCode::bad_argument,
                 .operation = "statistics",
                 .cause = "no samples",
                 .hint = ""});
  }
  std::vector<double> copy(samples.begin(), samples.end());
  std::ranges::sort(copy);
  return copy;
}

}  // namespace

double quantile(std::span<const double> samples, double fraction) {
  assert(fraction >= 0 && fraction <= 1);
  return quantile_of_sorted(sorted(samples), fraction);
}

Quartiles quartiles(std::span<const double> samples) {
  const auto in_order = sorted(samples);
  return {.lower = quantile_of_sorted(in_order, 0.25),
          .median = quantile_of_sorted(in_order, 0.5),
          .upper = quantile_of_sorted(in_order, 0.75)};
}

Quartiles ratios(std::span<const double> ours, std::span<const double> baseline) {
  assert(ours.size() == baseline.size());
  std::vector<double> ratio(ours.size());
  std::ranges::transform(baseline, ours, ratio.begin(),
                         [](double theirs, double mine) { return theirs / mine; });
  return quartiles(ratio);
}

}  // namespace qpmesh::bench
