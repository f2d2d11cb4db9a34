// Shared memory between the ranks of one host: set-up.
#pragma once

#include <map>
#include <string_view>

#include "base/owned.hpp"
#include "transport/connection.hpp"
#include "transport/memory.hpp"
#include "transport/shm/connection.hpp"

namespace qpmesh::transport::shm {

class ShmTransport final : public Transport {
 public:
  // own_doorbell: this rank's eventfd, for messages to itself.
  ShmTransport(int rank, Arena& arena, int own_doorbell);

  // A peer that proved to share memory with us. The arena is mapped here; descriptors may be closed
  // afterwards except the doorbell, which is kept. private_memory: where it and we read each other's. Throws Error{no_resource}.
  void add_peer(int peer, const base::System& system, int arena_fd, std::size_t arena_bytes,
                base::UniqueFd doorbell, base::ProcessMemory private_memory = {});

  // Only the arena can be reached by peers; it lasts, and is region 0.
  RemoteAddress register_memory(std::span<std::byte> memory) override;
  RemoteAddress register_target(std::span<std::byte> memory) override { return register_source(memory); }
  RemoteAddress register_source(std::span<const std::byte> memory) override;
  void deregister_memory(std::uint32_t) noexcept override {}
  std::optional<RemoteAddress> address_of(std::span<const std::byte> memory) const noexcept override;
  Blob address_for(int) override { return {}; }  // descriptors came through the bootstrap's sockets
  // A rank's memory as this process sees it; this one's too.
  PeerMemory memory_of(int peer) const;
  std::unique_ptr<Connection> connect(int peer, BlobView) override;
  void progress() noexcept override {}
  int wake_descriptor() const noexcept override { return -1; }

 private:
  struct Peer {
    base::Mapping arena;
    base::UniqueFd doorbell;
    base::ProcessMemory private_memory;
  };

  int rank_;
  Arena& arena_;
  int own_doorbell_;
  std::map<int, Peer> peers_;
};

}  // namespace qpmesh::transport::shm
