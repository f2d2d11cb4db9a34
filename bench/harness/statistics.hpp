// SPDX-License-Identifier: MIT
// What a row says about its samples. Medians and quartiles only: on a shared
// machine a mean is a report on the neighbours.
#pragma once

#include <cstddef>
#include <span>

namespace qpmesh::bench {

// The value below which the fraction lies, 0 … 1, interpolated linearly between neighbours in order
// (the definition that makes 0.5 of {1, 2} 1.5). Throws Error{bad_argument} when there are no
// samples.
double quantile(std::span<const double> samples, double fraction);

struct Quartiles {
  double lower = 0;
  double median = 0;
  double upper = 0;
};
Quartiles quartiles(std::span<const double> samples);

// How ours compares with a baseline measured beside it: baseline time / our
// time of each pair, so more than 1 is faster.
inline constexpr double no_slower_ratio_min = 0.95;
inline constexpr std::size_t pairs_min = 11;

Quartiles ratios(std::span<const double> ours, std::span<const double> baseline);

}  // namespace qpmesh::bench
