// SPDX-License-Identifier: MIT
// The seam for embedding: whoever can gather one small blob from every rank can start a mesh.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "qpmesh/deadline.hpp"
#include "qpmesh/export.h"

namespace qpmesh {

// Bytes of one rank, and a look at them.
using Blob = std::vector<std::byte>;
using BlobView = std::span<const std::byte>;

// Tells a rank who it is and exchanges blobs. A user's own class works as well
// as the library's (TCP, one host, MPI).
class QPMESH_API Bootstrap {
 public:
  virtual ~Bootstrap() = default;

  // Who this rank is, from 0 on, and how many there are.
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Collective. Returns every rank's blob, in rank order; blobs may differ in length (at most 64
  // KiB each). Called during init only, the same number of times on every rank. Throws
  // Error{timeout} naming the missing ranks when the deadline passes, and whatever else went wrong
  // as Error.
  virtual std::vector<Blob> all_gather(BlobView mine, Deadline deadline) = 0;

  // Throws what the next all_gather would throw, where that is known before: a rank has ended.
  // Asked every 50 ms or so while ranks connect to each other between two all_gathers; never waits.
  virtual void check_ranks() {}

  // An address of this host at which ranks of other hosts can reach it, in numbers and without a
  // port ("10.0.0.1"), where the bootstrap knows one; empty: the addresses of the host's interfaces
  // are tried. RDMA prefers its interface too. Asked after the first all_gather, and only where
  // ranks are on several hosts or use RDMA.
  virtual std::string local_address() const { return {}; }
};

}  // namespace qpmesh
