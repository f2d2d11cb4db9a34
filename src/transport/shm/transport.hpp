// SPDX-License-Identifier: MIT
// Shared memory between the ranks of one host: a write is a copy into the peer's mapped arena, then
// the flag. Posting neither allocates nor locks nor, while the peer is awake, calls the system.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <utility>

#include "transport/memory.hpp"
#include "transport/neighbour.hpp"
#include "transport/transport.hpp"

namespace qpmesh::transport::shm {

inline constexpr Capabilities capabilities{
    .name = "shm",
    .ordered_flag = true,
    .loads_peer_memory = true,
    .inline_bytes_max = std::numeric_limits<std::size_t>::max(),
    .write_bytes_max = std::numeric_limits<std::size_t>::max()};

class ShmConnection final : public Connection {
 public:
  ShmConnection(int peer, const Neighbour& memory) noexcept : memory_{memory} {
    fault_.code = ErrorCode::link_failed;
    fault_.peer = peer;
  }

  const Capabilities& capabilities() const noexcept override { return shm::capabilities; }
  Post post(std::span<const Write> chain) noexcept override;
  Post read(std::span<std::byte> target, std::optional<std::uint32_t>,
            RemoteAddress source) noexcept override;
  std::uint64_t completed() const noexcept override { return completed_; }
  std::optional<std::uint32_t> poll_immediate() noexcept override { return std::nullopt; }
  std::byte* map(RemoteAddress target, std::size_t bytes) noexcept override;
  Post publish(std::byte* flag, std::uint32_t value) noexcept override;
  const std::byte* load(RemoteAddress source, std::size_t bytes) noexcept override;
  void tear_down() noexcept override;
  const ErrorDetail* fault() const noexcept override {
    return fault_.cause.empty() ? nullptr : &fault_;
  }

 private:
  const Neighbour& memory_;
  std::uint64_t completed_ = 0;
  ErrorDetail fault_;
};

class ShmTransport final : public Transport {
 public:
  // own_doorbell: this rank's eventfd, for messages to itself.
  ShmTransport(int rank, Arena& arena, int own_doorbell) : arena_{arena} {
    neighbours_.emplace(rank, Neighbour{arena, own_doorbell});
  }

  void add_peer(int peer, Neighbour memory) { neighbours_.emplace(peer, std::move(memory)); }

  // Only the arena can be reached by peers; it lasts, and is region 0.
  RemoteAddress register_memory(std::span<const std::byte> memory, RegionKind) override;
  bool deregister_memory(std::uint32_t) noexcept override { return false; }  // it stays mapped
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
