// Connections that are made when they are first used: what the context does for them.
#pragma once

#include <functional>

namespace qpmesh::transport {

class OnDemand {
 public:
  virtual ~OnDemand() = default;
  // How a peer is asked to connect with us: over the control channel. Before anything is posted.
  virtual void ask_by(std::function<void(int peer)> ask) = 0;
  // A peer has asked. A connection that is there or under way stays as it is.
  virtual void asked_by(int peer) noexcept = 0;
};

}  // namespace qpmesh::transport
