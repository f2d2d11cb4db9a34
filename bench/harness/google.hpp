// SPDX-License-Identifier: MIT
// The seam to Google Benchmark: names, filters, lists and files are its, samples and rows are ours.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "bench/harness/report.hpp"

namespace qpmesh::bench {

struct Registered {
  std::string name;          // "allreduce/float_sum/1024"
  std::function<Row()> run;  // collective; called once per repetition
};

// Every rank runs the same list with the same flags; only the one that speaks prints and writes
// files. heading is printed before the first row. Returns how many matched the filter. Throws
// Error{bad_argument} for a flag Google Benchmark does not know, and whatever a run throws.
std::size_t run_registered(const std::string& program, const std::vector<std::string>& flags,
                           bool speaks, const std::string& heading,
                           const std::vector<Registered>& benchmarks);

}  // namespace qpmesh::bench
