// SPDX-License-Identifier: MIT
// Which cores the ranks of a node may really use, and which of them share a memory controller.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace qpmesh::topology {

// What one rank may use: the cores of its affinity mask, and how many cores' worth of time its
// control group allows.
struct UsableCores {
  std::vector<int> cores;  // operating system's numbers, ascending
  int quota = 0;           // 0: no limit
};

// Of this thread, by its mask and cgroup v2 (cpu.max of every ancestor). What cannot be read is not
// a limit.
UsableCores usable_cores();

// Cores' worth of time that the control group at path allows: the smallest limit of its own
// cpu.max, its ancestors' and the tree's root's, at least 1; 0: no limit. In a container the path
// is "/" and the limit lies in the root.
int cgroup_quota(const std::string& tree, std::string path);

// The union of the ranks' masks, cut by the smallest quota: mpirun may bind each rank to one core.
int usable_core_count(std::span<const UsableCores> ranks);

// Cores beside one memory controller, and with it the devices there.
struct NumaNode {
  int number = 0;  // the operating system's
  std::vector<int> cores{};
};

// Of this machine, by hwloc, which takes milliseconds; empty when it cannot be read.
std::vector<NumaNode> numa_nodes();

// Why hwloc cannot be opened, which is tried once; empty: it is open. Any thread.
const std::string& hwloc_missing();

// The node that holds all of the cores; -1 when none does.
int numa_node_of(std::span<const int> cores, std::span<const NumaNode> nodes) noexcept;

}  // namespace qpmesh::topology
