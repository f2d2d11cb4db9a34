// What the machine allows: the number that a row's share is measured against.
#pragma once

#include <cstddef>
#include <optional>

#include "qpmesh/communicator.hpp"

namespace qpmesh::bench {

// What must happen at least for one operation.
enum class LimitKind {
  exchange,   // every rank learns from every other, and each copies the bytes once
  one_way,    // one rank learns from another, and the bytes are copied once
  streaming,  // many in flight: only the copying counts
};

// All member functions are collective and ask the same of every rank. Measured when first asked for.
class Limits {
 public:
  explicit Limits(Communicator& world);

  int usable_cores() const noexcept { return usable_cores_; }
  bool one_node() const noexcept { return one_node_; }

  // Seconds below which no implementation gets through shared memory; nothing where ranks
  // do not share a node or there is one rank.
  std::optional<double> least_s(LimitKind kind, std::size_t bytes);

 private:
  void measure_flags();
  double copy_s(std::size_t bytes);

  Communicator& world_;
  int usable_cores_ = 1;
  bool one_node_ = false;
  bool flags_measured_ = false;
  std::optional<double> exchange_s_;
  std::optional<double> one_way_s_;
};

}  // namespace qpmesh::bench
