// Data path of shared memory: a write is a copy into the peer's mapped arena, then the flag. Nothing here
// allocates, locks or, while the peer is awake, calls the system.
#pragma once

#include <cstdint>
#include <limits>

#include "transport/connection.hpp"
#include "transport/neighbour.hpp"

namespace qpmesh::transport::shm {

// copies_private_memory: where the system lets both ends do it.
constexpr Capabilities capabilities(bool copies_private_memory) noexcept {
  return {.name = "shm",
          .ordered_flag = true,
          .loads_peer_memory = true,
          .copies_private_memory = copies_private_memory,
          .fills_private_memory = copies_private_memory && base::ProcessMemory::can_fill,
          .inline_bytes_max = std::numeric_limits<std::size_t>::max(),
          .write_bytes_max = std::numeric_limits<std::size_t>::max()};
}

class ShmConnection final : public Connection {
 public:
  ShmConnection(int peer, const Neighbour& memory) noexcept
      : capabilities_{shm::capabilities(memory.private_memory().is_known())}, memory_{memory} {
    fault_.peer = peer;
  }

  const Capabilities& capabilities() const noexcept override { return capabilities_; }
  Post post(std::span<const Write> chain) noexcept override;
  std::uint64_t completed() const noexcept override { return completed_; }
  std::optional<std::uint32_t> take_arrival() noexcept override { return std::nullopt; }
  const std::byte* load(RemoteAddress source, std::size_t bytes) noexcept override;
  bool copy_private(std::byte* target, std::uint64_t address, std::size_t bytes) noexcept override {
    return memory_.private_memory().copy(target, address, bytes) == 0;
  }
  bool fill_private(const PrivateTarget& target, std::span<const std::byte> source) noexcept override;
  bool process_ends_soon() const noexcept override { return memory_.private_memory().ends_soon(); }
  void sever() noexcept override;
  const Fault* fault() const noexcept override { return severed_ ? &fault_ : nullptr; }

 private:
  void copy(const Write& write) noexcept;

  Capabilities capabilities_;
  const Neighbour& memory_;
  std::uint64_t completed_ = 0;
  bool severed_ = false;
  Fault fault_;
};

}  // namespace qpmesh::transport::shm
