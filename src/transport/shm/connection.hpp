// Data path of shared memory: a write is a copy into the peer's mapped arena, then the flag.
// Nothing here allocates, locks or, while the peer is awake, calls the system.
#pragma once

#include <cstdint>
#include <limits>

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
    fault_.peer = peer;
  }

  const Capabilities& capabilities() const noexcept override { return shm::capabilities; }
  Post post(std::span<const Write> chain) noexcept override;
  Post read(std::span<std::byte> target, std::optional<std::uint32_t>,
            RemoteAddress source) noexcept override;
  std::uint64_t completed() const noexcept override { return completed_; }
  std::optional<std::uint32_t> poll_immediate() noexcept override { return std::nullopt; }
  const std::byte* load(RemoteAddress source, std::size_t bytes) noexcept override;
  void tear_down() noexcept override;
  const Fault* fault() const noexcept override { return fault_.detail.empty() ? nullptr : &fault_; }

 private:
  const Neighbour& memory_;
  std::uint64_t completed_ = 0;
  Fault fault_;
};

}  // namespace qpmesh::transport::shm
