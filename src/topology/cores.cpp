// SPDX-License-Identifier: MIT
#include "topology/cores.hpp"

#include <hwloc.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <memory>
#include <set>
#include <string>

#include "base/library.hpp"

namespace qpmesh::topology {
namespace {

// hwloc is opened when it is first needed. A call as in the manual goes through a pointer of the
// function's name, null until then.
#define QPMESH_HWLOC_FUNCTIONS(FUNCTION) \
  FUNCTION(hwloc_bitmap_next)            \
  FUNCTION(hwloc_get_obj_by_depth)       \
  FUNCTION(hwloc_topology_destroy)       \
  FUNCTION(hwloc_topology_init)          \
  FUNCTION(hwloc_topology_load)
// NOLINTNEXTLINE(bugprone-macro-parentheses): a name that is defined has none
#define QPMESH_DEFINE(name) decltype(&::name) name = nullptr;
QPMESH_HWLOC_FUNCTIONS(QPMESH_DEFINE)
#undef QPMESH_DEFINE

struct Destroy {
  void operator()(hwloc_topology* topology) const noexcept { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<hwloc_topology, Destroy>;

struct FreeCpuSet {
  void operator()(cpu_set_t* set) const noexcept { CPU_FREE(set); }
};

// Of this machine; nothing when hwloc cannot read it.
Topology load_topology() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return nullptr;
  Topology topology{raw};
  return hwloc_topology_load(raw) == 0 ? std::move(topology) : nullptr;
}

std::vector<int> cores_of(hwloc_const_bitmap_t mask) {
  std::vector<int> cores;
  for (int core = hwloc_bitmap_next(mask, -1); core >= 0; core = hwloc_bitmap_next(mask, core))
    cores.push_back(core);
  return cores;
}

// Without hwloc, which reads hundreds of files first and loads plugins with their libraries.
std::vector<int> affinity_mask() {
  constexpr int cores_max = 1 << 20;
  for (int count = 1024; count <= cores_max; count *= 2) {  // the kernel refuses a set too short
    const std::unique_ptr<cpu_set_t, FreeCpuSet> mask{CPU_ALLOC(static_cast<std::size_t>(count))};
    const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(count));
    if (!mask) return {};
    if (::sched_getaffinity(0, bytes, mask.get()) != 0) {
      if (errno == EINVAL) continue;
      return {};
    }
    std::vector<int> cores;
    for (int core = 0; core < count; ++core) {
      if (CPU_ISSET_S(static_cast<std::size_t>(core), bytes, mask.get())) cores.push_back(core);
    }
    return cores;
  }
  return {};
}

// Path of this process in the cgroup v2 tree: the line "0::/path".
std::string cgroup_path() {
  std::ifstream file{"/proc/self/cgroup"};
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("0::")) return line.substr(3);
  }
  return {};
}

// The limit of one cpu.max, "max 100000" or "150000 100000"; 0: none.
int read_quota(const std::string& file_path) {
  std::ifstream file{file_path};
  double limit = 0;
  double period = 0;
  if (!(file >> limit >> period) || limit <= 0 || period <= 0) return 0;
  return std::max(1, static_cast<int>(std::floor(limit / period)));
}

}  // namespace

int cgroup_quota(const std::string& tree, std::string path) {
  int quota = 0;
  for (;; path.resize(path.find_last_of('/'))) {
    if (path == "/") path.clear();
    if (const int here = read_quota(tree + path + "/cpu.max"); here > 0)
      quota = quota == 0 ? here : std::min(quota, here);
    if (path.find('/') == std::string::npos) return quota;
  }
}

UsableCores usable_cores() {
  return {.cores = affinity_mask(), .quota = cgroup_quota("/sys/fs/cgroup", cgroup_path())};
}

int usable_core_count(std::span<const UsableCores> ranks) {
  std::set<int> cores;
  int quota = 0;
  for (const UsableCores& rank : ranks) {
    cores.insert(rank.cores.begin(), rank.cores.end());
    if (rank.quota > 0) quota = quota == 0 ? rank.quota : std::min(quota, rank.quota);
  }
  const int count = std::max(1, static_cast<int>(cores.size()));
  return quota > 0 ? std::min(quota, count) : count;
}

const std::string& hwloc_missing() {
#define QPMESH_SYMBOL(name)                                                            \
  base::LibrarySymbol{#name, [](void* address) noexcept {                              \
                        topology::name = reinterpret_cast<decltype(&::name)>(address); \
                      }},
  static const std::string reason =
      base::open_library("libhwloc.so.15", std::array{QPMESH_HWLOC_FUNCTIONS(QPMESH_SYMBOL)});
#undef QPMESH_SYMBOL
  return reason;
}
static_assert(HWLOC_API_VERSION >> 16 == 2, "the number of libhwloc.so is that of this interface");

std::vector<NumaNode> numa_nodes() {
  std::vector<NumaNode> nodes;
  if (!hwloc_missing().empty()) return nodes;
  const auto topology = load_topology();
  if (!topology) return nodes;
  hwloc_obj_t node = nullptr;
  for (unsigned i = 0;
       (node = hwloc_get_obj_by_depth(topology.get(), HWLOC_TYPE_DEPTH_NUMANODE, i)) != nullptr;
       ++i)
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
