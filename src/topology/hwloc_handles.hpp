// hwloc's objects, owned.
#pragma once

#include <hwloc.h>

#include <memory>
#include <vector>

namespace qpmesh::topology {

struct DestroyTopology {
  void operator()(hwloc_topology* topology) const noexcept { hwloc_topology_destroy(topology); }
};
struct FreeBitmap {
  void operator()(hwloc_bitmap_s* bitmap) const noexcept { hwloc_bitmap_free(bitmap); }
};
using Topology = std::unique_ptr<hwloc_topology, DestroyTopology>;
using Bitmap = std::unique_ptr<hwloc_bitmap_s, FreeBitmap>;

// Of this machine; nothing when hwloc cannot read it.
inline Topology load_topology() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return nullptr;
  Topology topology{raw};
  return hwloc_topology_load(raw) == 0 ? std::move(topology) : nullptr;
}

inline std::vector<int> cores_of(hwloc_const_bitmap_t mask) {
  std::vector<int> cores;
  for (int core = hwloc_bitmap_first(mask); core >= 0; core = hwloc_bitmap_next(mask, core))
    cores.push_back(core);
  return cores;
}

}  // namespace qpmesh::topology
