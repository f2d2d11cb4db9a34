// SPDX-License-Identifier: MIT
// What the machine allows: the number that a row's share is measured against.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include "base/owned.hpp"
#include "bench/harness/settings.hpp"
#include "qpmesh/communicator.hpp"

namespace qpmesh::bench {

// What must happen at least for one operation.
enum class LimitKind {
  mutual,     // every rank learns from every other, and each copies the bytes once
  one_way,    // one rank learns from another, and the bytes are copied once
  streaming,  // many in flight: only the copying counts
  sliced,     // mutual; of long vectors in Buffers every rank adds its slice and copies the others
};

// All member functions are collective and ask the same of every rank. Measured when first asked
// for.
class Limits {
 public:
  explicit Limits(Communicator& world);

  int usable_cores() const noexcept { return usable_cores_; }
  bool crowded() const noexcept { return world_.size() > usable_cores_; }  // of ranks of one node
  bool one_node() const noexcept { return one_node_; }

  // Seconds: the largest time for which somebody else had a core, while one rank for each usable
  // core did nothing but look, for 5 ms, and the others slept.
  double idle_gap_s();

  // The least work that gets such an operation through shared memory, to be timed beside it;
  // nothing where no such probe is written, where ranks do not share a node, or there is one rank.
  std::function<void()> probe(LimitKind kind, Buffers buffers, std::size_t bytes);

  // Where there is no probe: seconds below which nothing gets through shared memory, from what
  // flags and copies of so many bytes took.
  std::optional<double> least_s(LimitKind kind, std::size_t bytes);

 private:
  bool flags_work();
  void measure_flags();
  double copy_s(std::size_t bytes);

  Communicator& world_;
  int usable_cores_ = 1;
  int node_rank_ = 0;
  bool one_node_ = false;
  bool flags_measured_ = false;
  base::Mapping lines_;  // one FlagLine of each rank; empty: not shared
  std::uint32_t round_ = 0;
  unsigned looks_per_yield_ = 1;  // with which flags were fastest
  std::optional<double> mutual_s_;
  std::optional<double> one_way_s_;
};

}  // namespace qpmesh::bench
