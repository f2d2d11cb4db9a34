// SPDX-License-Identifier: MIT
// Memory that a device may read and that peers may write: what is registered, and under which keys.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/system.hpp"
#include "transport/transport.hpp"
#include "transport/verbs/handles.hpp"

namespace qpmesh::transport::verbs {

class Regions {
 public:
  Regions(const base::System& system, ibv_pd& domain) noexcept : system_{system}, domain_{domain} {}

  // Throws Error{no_resource}, with need, have and remedy where locked memory is limited.
  RemoteAddress add(std::span<const std::byte> memory, RegionKind kind);
  // False: the device keeps it.
  bool remove(std::uint32_t remote_key) noexcept;

  // Peers name memory by its remote key and its address here. Lasting memory only.
  std::optional<RemoteAddress> address_of(std::span<const std::byte> memory) const noexcept;
  // The key under which this device reaches it, or nothing: in the region with this remote key, or
  // in lasting memory. Data path: a look at the lasting region that was found last.
  std::optional<std::uint32_t> local_key(std::span<const std::byte> memory,
                                         std::optional<std::uint32_t> remote_key) const noexcept;

 private:
  struct Region {
    MemoryRegion handle;
    const std::byte* begin;
    std::size_t bytes;
    bool lasting;
    std::uint32_t remote_key() const noexcept { return handle->rkey; }
    bool contains(std::span<const std::byte> memory) const noexcept {
      return memory.data() >= begin && memory.size() <= bytes &&
             static_cast<std::size_t>(memory.data() - begin) <= bytes - memory.size();
    }
  };
  const Region* find_lasting(std::span<const std::byte> memory) const noexcept;

  const base::System& system_;
  ibv_pd& domain_;
  std::vector<Region> regions_;
  mutable std::size_t last_ = 0;  // index of the lasting region that was found last
  std::size_t bytes_ = 0;
};

}  // namespace qpmesh::transport::verbs
