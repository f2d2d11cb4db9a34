// SPDX-License-Identifier: MIT
// Rows for people and scripts: one line a size, columns separated by spaces, comments begin with
// '#'.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>

#include "bench/harness/statistics.hpp"

namespace qpmesh::bench {

struct Comparison {
  double p50_us = 0;
  Quartiles ratio;     // baseline time / ours
  std::string name{};  // which of several it is
  // The ratio of ours and the same again, by its name: 1 but for what the measurement cannot tell.
  std::optional<double> itself{};
};

struct Row {
  std::string series;
  std::size_t bytes = 0;
  std::size_t element_count = 0;
  double p50_us = 0;
  double p99_us = 0;
  double bus_factor = 0;
  std::string algorithm;
  std::optional<double> predicted_us;  // of that algorithm, by the constants in use
  std::optional<std::size_t>
      wrong;  // elements, all ranks and checked runs together; nothing where unchecked
  std::optional<double> limit_share;  // 1 = as fast as the machine allows
  std::optional<Comparison> baseline;
  std::size_t batch_calls = 1;
  std::size_t samples = 0;
  double sample_us = 0;    // what one of them lasted: a batch
  double idle_gap_us = 0;  // see Limits::idle_gap_s

  // GB/s (10^9). 0 where the operation carries no bytes.
  double algorithm_bandwidth() const noexcept;
  // A gap that alone makes a sample ten times as long, or a slice of somebody else's: a p99 beyond
  // 10 × p50 is then the neighbours'.
  bool disturbed() const noexcept { return idle_gap_us > std::min(9 * sample_us, 500.0); }
  double bus_bandwidth() const noexcept { return algorithm_bandwidth() * bus_factor; }
};

std::string format_columns(bool with_baseline);
std::string format_row(const Row& row);

}  // namespace qpmesh::bench
