#include "topology/usable_cores.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "topology/hwloc_handles.hpp"

namespace qpmesh::topology {
namespace {

std::vector<int> affinity_mask() {
  const auto topology = load_topology();
  const Bitmap mask{hwloc_bitmap_alloc()};
  if (!topology || !mask ||
      hwloc_get_cpubind(topology.get(), mask.get(), HWLOC_CPUBIND_PROCESS) != 0)
    return {};
  return cores_of(mask.get());
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

}  // namespace qpmesh::topology
