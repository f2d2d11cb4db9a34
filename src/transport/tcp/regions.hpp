// SPDX-License-Identifier: MIT
// Memory that peers may write or read over their sockets: this process is the one that does it for
// them, so a region is a row of a table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "transport/transport.hpp"

namespace qpmesh::transport::tcp {

// Of a span of memory, the part [offset, offset + bytes); nullptr where it does not lie inside.
inline std::byte* part_of(std::span<std::byte> memory, std::uint64_t offset,
                          std::size_t bytes) noexcept {
  const bool inside = offset <= memory.size() && bytes <= memory.size() - offset;
  return inside ? memory.data() + offset : nullptr;
}

class Regions {
 public:
  // The window of a connection: what its peer writes without asking. No row of the table.
  static constexpr std::uint32_t window = 0;

  RemoteAddress add(std::span<const std::byte> memory, RegionKind kind);
  // False: what peers have asked to read of it may wait in their connections, to be sent from
  // there.
  bool remove(std::uint32_t key) noexcept;
  // Lasting memory only.
  std::optional<RemoteAddress> address_of(std::span<const std::byte> memory) const noexcept;

  // Where a peer may write, or read; nullptr where nothing there is open to that.
  std::byte* writable(RemoteAddress address, std::size_t bytes) const noexcept;
  const std::byte* readable(RemoteAddress address, std::size_t bytes) const noexcept;
  // Was open once: who wrote there could not know yet that it no longer is.
  bool is_closed(std::uint32_t key) const noexcept {
    return key != window && (key <= last_key_ || wrapped_) && find(key) == nullptr;
  }

 private:
  struct Region {
    std::uint32_t key = 0;
    std::span<std::byte> memory;
    RegionKind kind = RegionKind::lasting;
  };
  const Region* find(std::uint32_t key) const noexcept;

  std::vector<Region> regions_;   // few: Buffers, and buffers of large messages on their way
  mutable std::size_t last_ = 0;  // index of the one that was found last
  std::uint32_t last_key_ = window;
  bool wrapped_ = false;
};

}  // namespace qpmesh::transport::tcp
