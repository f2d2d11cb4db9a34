// SPDX-License-Identifier: MIT
// A number about the machine or about a part of the library: samples of
// nanoseconds per operation, medians printed.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace qpmesh::bench {

struct Probe {
  std::string name;
  std::function<double()>
      sample_ns;     // one sample: a batch between two clock reads, divided by its operations
  double bytes = 0;  // moved per operation, for GB/s; 0: none
  // What it is compared with, in pairs of samples (empty: nothing), and how much of that it may
  // cost at most; 0: no bound.
  std::function<double()> reference_ns{};
  double share_max = 0;
};

// Two cores that this process may use; the same one twice where there is only one.
struct CorePair {
  int first = 0;
  int second = 0;
  bool distinct() const noexcept { return first != second; }
};

std::vector<Probe> machine_probes(CorePair cores);
std::vector<Probe> own_probes(CorePair cores);
std::vector<Probe> kernel_probes(CorePair cores);
std::vector<Probe> call_probes(CorePair cores);

// One way between two cores: what own small steps are compared with.
double flag_exchange_ns(CorePair cores);

// Source and target stay the same from sample to sample, so that a size that fits a cache is
// measured in it.
struct CopiedVectors {
  std::vector<std::byte> from;
  std::vector<std::byte> to;

  explicit CopiedVectors(std::size_t bytes) : from(bytes, std::byte{1}), to(bytes, std::byte{2}) {}
};
using Copy = std::function<void(CopiedVectors& vectors)>;
void copy_by_libc(CopiedVectors& vectors);
std::function<double()> copy_sampler(std::shared_ptr<CopiedVectors> vectors, Copy copy);

}  // namespace qpmesh::bench
