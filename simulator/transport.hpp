// SPDX-License-Identifier: MIT
// Set-up: a rank's port to the simulated network.
#pragma once

#include <map>
#include <memory>

#include "base/system.hpp"
#include "qpmesh/bootstrap.hpp"
#include "simulator/fabric.hpp"

namespace qpmesh::simulator {

class Transport final : public transport::Transport {
 public:
  Transport(Fabric& fabric, const base::System& system, int rank)
      : fabric_{fabric}, system_{system}, rank_{rank}, port_{fabric.open_port(rank)} {}
  ~Transport() override { fabric_.close_port(port_); }
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  RemoteAddress register_memory(std::span<const std::byte> memory,
                                transport::RegionKind kind) override;
  bool deregister_memory(std::uint32_t region) noexcept override {
    fabric_.deregister_memory(port_, region);
    return true;
  }
  std::optional<RemoteAddress> address_of(
      std::span<const std::byte> memory) const noexcept override {
    return fabric_.address_of(port_, memory);
  }
  // What the peer needs to connect to us; then both ends connect, in any order.
  Blob address_for(int peer);
  std::unique_ptr<transport::Connection> connect(int peer, BlobView peer_address);
  void progress() noexcept override { fabric_.progress(port_); }
  int wake_descriptor() const noexcept override { return -1; }

 private:
  std::uint32_t endpoint_for(int peer);

  Fabric& fabric_;
  const base::System& system_;
  int rank_;
  std::uint32_t port_;
  std::map<int, std::uint32_t> waiting_;  // endpoints that have an address and no connection yet
};

}  // namespace qpmesh::simulator
