// SPDX-License-Identifier: MIT
// What a benchmark program is made of. A program describes its series and their cases; the harness
// does the rest: options, samples, verification, baseline, rows, files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/harness/baseline.hpp"
#include "bench/harness/limits.hpp"
#include "bench/harness/settings.hpp"
#include "qpmesh/communicator.hpp"

namespace qpmesh::bench {

// One operation at one size, with its buffers. Made on every rank at the same time.
class Case {
 public:
  virtual ~Case() = default;

  virtual void run() = 0;  // the call that is timed; nothing else
  virtual void run_baseline(
      Baseline&) = 0;  // the same through the other library, on the same buffers

  // Around a checked run: inputs for this seed and poisoned outputs; then the
  // number of this rank's wrong elements.
  virtual void prepare(std::uint64_t seed) = 0;
  virtual std::size_t wrong(std::uint64_t seed) = 0;
  // Received bytes that --corrupt may touch. Empty: the operation delivers no bytes.
  virtual std::span<std::byte> output() { return {}; }
  virtual bool checkable() const { return true; }

  virtual double operations_per_run() const { return 1; }             // a time is divided by this
  virtual Candidate algorithm() const { return {.algorithm = "-"}; }  // that runs
  // Those that could run, and the one that runs from now on; empty: the chosen one again.
  virtual std::vector<std::string> algorithms() const { return {}; }
  virtual void force(const std::string& /*algorithm*/) {}
};

struct Series {
  std::string name;               // second part of the benchmark's name: allreduce/float_sum/1024
  std::size_t element_bytes = 0;  // 0: the operation carries no data, and there is one row
  bool has_blocks = false;  // one for each rank: sizes are rounded up to an element for every one
  bool ends_with_a_block = false;  // a rank keeps one block's bytes: those must be copied at least
  bool has_baseline = true;        // other libraries have such an operation
  LimitKind limit = LimitKind::mutual;
  // Bytes that must pass the slowest link for each byte of the operation, as
  // nccl-tests define busbw; from the number of ranks.
  std::function<double(int ranks)> bus_factor;
  std::function<std::unique_ptr<Case>(Communicator& world, Buffers buffers, std::size_t bytes)>
      make;
};

struct Program {
  std::string name;  // "allreduce" of bench_allreduce
  int ranks_min = 1;
  std::vector<Collective>
      collectives{};  // whose algorithm --algorithm sets; none: nothing to choose from
  std::vector<Series> series;
};

// What runs for so many bytes.
Candidate chosen_algorithm(const Communicator& world, Collective collective, std::size_t bytes);
// What could.
std::vector<std::string> applicable_algorithms(const Communicator& world, Collective collective,
                                               std::size_t bytes);

// main() of every program. 0; 1 when an element was wrong; 2 after an error, which is printed.
int run_program(const Program& program, int argc, char** argv);

}  // namespace qpmesh::bench
