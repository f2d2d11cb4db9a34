// The command line of a benchmark program.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace qpmesh::bench {

enum class Buffers { private_memory, allocated };

struct Settings {
  std::size_t bytes_min = 4;
  std::size_t bytes_max = std::size_t{16} << 20;
  bool check = true;
  bool corrupt = false;
  std::string algorithm;  // empty: chosen by size
  std::string transport;  // empty: every one that reaches
  Buffers buffers = Buffers::private_memory;
  std::string baseline;                      // empty: none
  std::optional<std::size_t> samples;        // exactly so many; without it, by time
  std::vector<std::string> benchmark_flags;  // --benchmark_… as given, for Google Benchmark
  std::string help;  // not empty: the user asked for this text instead of a run
};

// Throws Error{bad_argument}: an unknown option (the hint names the nearest one), a
// malformed value, options that contradict each other, and flags of Google Benchmark that
// several ranks cannot follow, with the reason.
Settings parse_arguments(const std::string& program, const std::vector<std::string>& arguments);

}  // namespace qpmesh::bench
