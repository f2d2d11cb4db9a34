#include "topology/numa_nodes.hpp"

#include <algorithm>

#include "topology/hwloc_handles.hpp"

namespace qpmesh::topology {

std::vector<NumaNode> numa_nodes() {
  const auto topology = load_topology();
  std::vector<NumaNode> nodes;
  if (!topology) return nodes;
  for (hwloc_obj_t node = nullptr;
       (node = hwloc_get_next_obj_by_type(topology.get(), HWLOC_OBJ_NUMANODE, node)) != nullptr;)
    nodes.push_back({.number = static_cast<int>(node->os_index), .cores = cores_of(node->cpuset)});
  return nodes;
}

int numa_node_of(std::span<const int> cores, std::span<const NumaNode> nodes) noexcept {
  if (cores.empty()) return -1;
  const auto found = std::ranges::find_if(nodes, [&](const NumaNode& node) {
    return std::ranges::all_of(cores,
                               [&](int core) { return std::ranges::count(node.cores, core) > 0; });
  });
  return found == nodes.end() ? -1 : found->number;
}

}  // namespace qpmesh::topology
