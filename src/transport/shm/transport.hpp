// Shared memory between the ranks of one host: set-up.
#pragma once

#include <map>
#include <memory>
#include <utility>

#include "transport/memory.hpp"
#include "transport/neighbour.hpp"
#include "transport/shm/connection.hpp"
#include "transport/transport.hpp"

namespace qpmesh::transport::shm {

class ShmTransport final : public Transport {
 public:
  // own_doorbell: this rank's eventfd, for messages to itself.
  ShmTransport(int rank, Arena& arena, int own_doorbell) : arena_{arena} {
    neighbours_.emplace(rank, Neighbour{arena, own_doorbell});
  }

  void add_peer(int peer, Neighbour memory) { neighbours_.emplace(peer, std::move(memory)); }

  // Only the arena can be reached by peers; it lasts, and is region 0.
  RemoteAddress register_memory(std::span<const std::byte> memory, RegionKind) override;
  void deregister_memory(std::uint32_t) noexcept override {}
  std::optional<RemoteAddress> address_of(
      std::span<const std::byte> memory) const noexcept override;
  // Of peers that were added, and of this rank; as long as the transport.
  const Neighbour& neighbour(int rank) const { return neighbours_.at(rank); }
  std::unique_ptr<Connection> connect(int peer) const {
    return std::make_unique<ShmConnection>(peer, neighbour(peer));
  }
  void progress() noexcept override {}
  int wake_descriptor() const noexcept override { return -1; }

 private:
  Arena& arena_;
  std::map<int, Neighbour> neighbours_;  // by rank
};

}  // namespace qpmesh::transport::shm
