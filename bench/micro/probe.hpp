// A number about the machine or about a part of the library: samples of
// nanoseconds per operation, medians printed.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace qpmesh::bench {

struct Probe {
  std::string name;
  std::function<double()>
      sample_ns;     // one sample: a batch between two clock reads, divided by its operations
  double bytes = 0;  // moved per operation, for GB/s; 0: none
  double flag_share_max =
      0;  // must not cost more than this share of a flag exchange between cores; 0: no bound
};

// Two cores that this process may use; the same one twice where there is only one.
struct CorePair {
  int first = 0;
  int second = 0;
  bool distinct() const noexcept { return first != second; }
};

std::vector<Probe> machine_probes(CorePair cores);
std::vector<Probe> own_probes(CorePair cores);

// One way between two cores: what own probes are compared with, in pairs of samples.
double flag_exchange_ns(CorePair cores);

}  // namespace qpmesh::bench
