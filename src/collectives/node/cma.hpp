// Cross memory attach: who has something to give says where it lies, and whoever wants it copies it
// straight from there, out of private memory too: the kernel does that (process_vm_readv). Who gave
// waits until the others have it. A broadcast's root, which would only wait, copies too where each
// rank has a core (base/fill_guard.hpp). Wins for long vectors on one node, from where a copy saved
// is worth a call of the system. Later where ranks share cores: the system copies more slowly than
// a core does inside its cache. Cost: a call and one copy of each block that a rank wants; two
// lines. Source: D. Buntinas, G. Mercier, W. Gropp, 2006; J. Vienne's CMA in MVAPICH2, and Open
// MPI's btl/vader.
#pragma once

#include "collectives/cost.hpp"
#include "collectives/node/operation.hpp"

namespace qpmesh::collectives {

// The ranks read each other's private memory.
inline bool fits_cma(const CallShape& shape) {
  return shape.cma && !shape.uneven && shape.size > 1 && shape.size <= node_ranks_max &&
         shape.bytes > 0;
}

// Every rank gives, and takes its part from every other one: place(from) of so many bytes(from), to
// target(from).
template <class Target, class Place, class Bytes>
Task all_pairs_in_place(Group group, NodeOperation& node, Target target, Place place, Bytes bytes) {
  for (int distance = 1; distance < group.size(); ++distance) {
    const int from = group.plus(distance);
    co_await node.member(from, 1);
    if (!node.copy_in_place(from, target(from), place(from), bytes(from)))
      co_await node.failure_of(from);
  }
  node.advance(2);
  co_await node.all(2);  // others still read ours
}

}  // namespace qpmesh::collectives
