// SPDX-License-Identifier: MIT
#include "bench/harness/report.hpp"

#include <fmt/format.h>

namespace qpmesh::bench {
namespace {

std::string bandwidth_text(double gigabytes_per_s) {
  return gigabytes_per_s > 0 ? fmt::format("{:.2f}", gigabytes_per_s) : "-";
}

}  // namespace

double Row::algorithm_bandwidth() const noexcept {
  return p50_us > 0 ? static_cast<double>(bytes) / (p50_us * 1e3) : 0;
}

std::string format_columns(bool with_baseline) {
  std::string line = fmt::format("#{:>9} {:>9} {:>11} {:>11} {:>8} {:>8} {:>20} {:>6} {:>6} {:>12}",
                                 "bytes", "count", "p50_us", "p99_us", "algbw", "busbw",
                                 "algorithm", "wrong", "limit", "predicted_us");
  if (with_baseline) {
    line +=
        fmt::format(" {:>11} {:>6} {:>15} {:>9}", "peer_p50_us", "ratio", "[q1 q3]", "no_slower");
  }
  return line;
}

std::string format_row(const Row& row) {
  std::string line =
      fmt::format("{:>10} {:>9} {:>11.3f} {:>11.3f} {:>8} {:>8} {:>20} {:>6} {:>6} {:>12}",
                  row.bytes, row.element_count, row.p50_us, row.p99_us,
                  bandwidth_text(row.algorithm_bandwidth()), bandwidth_text(row.bus_bandwidth()),
                  row.algorithm, row.wrong ? fmt::format("{}", *row.wrong) : "-",
                  row.limit_share ? fmt::format("{:.0f}%", 100 * *row.limit_share) : "-",
                  row.predicted_us ? fmt::format("{:.3f}", *row.predicted_us) : "-");
  if (row.baseline) {
    const auto& [p50_us, ratio, name, itself] = *row.baseline;
    line += fmt::format(" {:>11.3f} {:>6.2f} {:>15} {:>9}", p50_us, ratio.median,
                        fmt::format("[{:.2f} {:.2f}]", ratio.lower, ratio.upper),
                        ratio.median >= no_slower_ratio_min ? "yes" : "no");
    if (!name.empty()) line += " " + name;
    if (itself) line += fmt::format(" (itself {:.2f})", *itself);
  }
  if (row.disturbed())
    line += fmt::format("  disturbed: others had a core for {:.0f} us", row.idle_gap_us);
  return line;
}

}  // namespace qpmesh::bench
