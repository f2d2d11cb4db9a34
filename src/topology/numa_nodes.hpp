// Which cores share a memory controller, and with it the devices beside it.
#pragma once

#include <span>
#include <vector>

namespace qpmesh::topology {

struct NumaNode {
  int number = 0;  // the operating system's
  std::vector<int> cores{};
};

// Of this machine, by hwloc; empty when it cannot be read.
std::vector<NumaNode> numa_nodes();

// The node that holds all of the cores; -1 when none does.
int numa_node_of(std::span<const int> cores, std::span<const NumaNode> nodes) noexcept;

}  // namespace qpmesh::topology
