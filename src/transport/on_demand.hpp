// SPDX-License-Identifier: MIT
// Connections that are made when they are first used: what the context does for them.
#pragma once

#include <functional>

#include "qpmesh/bootstrap.hpp"

namespace qpmesh::transport {

class OnDemand {
 public:
  virtual ~OnDemand() = default;
  // How a peer is told what it needs to connect with us: over the control channel, in order. Before
  // anything is posted.
  virtual void tell_by(std::function<void(int peer, BlobView words)> tell) = 0;
  // What a peer tells us. A connection that is there stays as it is.
  virtual void told_by(int peer, BlobView words) noexcept = 0;
};

}  // namespace qpmesh::transport
