// SPDX-License-Identifier: MIT
// The command line of a benchmark program.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace qpmesh::bench {

enum class BufferKind { private_memory, allocated };
// Where the vectors of a series lie. What is sent begins with a page, what is received so many
// bytes behind one: two blocks of malloc lie 16 bytes apart so.
struct Buffers {
  BufferKind kind = BufferKind::private_memory;
  std::size_t offset_bytes = 0;
};

struct Settings {
  std::size_t bytes_min = 4;
  std::size_t bytes_max = std::size_t{16} << 20;
  bool check = true;
  bool corrupt = false;
  std::string algorithm;  // empty: chosen by size
  std::string transport;  // empty: every one that reaches
  Buffers buffers{};
  double compute_s = 0;                      // before each call, not timed
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
