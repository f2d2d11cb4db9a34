// Memory that a device may read and that peers may write: what is registered, and under which keys.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/system.hpp"
#include "transport/connection.hpp"
#include "transport/verbs/handles.hpp"

namespace qpmesh::transport::verbs {

class Regions {
 public:
  Regions(const base::System& system, ibv_pd& domain) noexcept : system_{system}, domain_{domain} {}

  enum class Access : std::uint8_t {
    peers_write,  // and read
    peers_read,   // as this device does, to send it
  };
  // Throws Error{no_resource} telling need, have and remedy where the limit of locked memory is the cause.
  RemoteAddress add(std::span<const std::byte> memory, Access access);
  void remove(std::uint32_t remote_key) noexcept;

  // Peers name memory by its remote key and its address here.
  std::optional<RemoteAddress> address_of(std::span<const std::byte> memory) const noexcept;
  // The key under which the device reads it, or nothing. Data path: a look at the region that was found last.
  std::optional<std::uint32_t> local_key(std::span<const std::byte> memory) const noexcept;

  std::size_t bytes() const noexcept { return bytes_; }

 private:
  struct Region {
    MemoryRegion handle;
    const std::byte* begin;
    std::size_t bytes;
    bool contains(std::span<const std::byte> memory) const noexcept {
      return memory.data() >= begin && memory.size() <= bytes &&
             static_cast<std::size_t>(memory.data() - begin) <= bytes - memory.size();
    }
  };
  const Region* find(std::span<const std::byte> memory) const noexcept;

  const base::System& system_;
  ibv_pd& domain_;
  std::vector<Region> regions_;
  mutable std::size_t last_ = 0;  // index of the region that was found last
  std::size_t bytes_ = 0;
};

}  // namespace qpmesh::transport::verbs
