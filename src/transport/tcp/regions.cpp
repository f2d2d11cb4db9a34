// SPDX-License-Identifier: MIT
#include "transport/tcp/regions.hpp"

#include <algorithm>

namespace qpmesh::transport::tcp {

// A key comes again after 2^32 others: long after its region has gone, unless that one lasts.
RemoteAddress Regions::add(std::span<const std::byte> memory, RegionKind kind) {
  do {
    wrapped_ |= ++last_key_ == window;
  } while (last_key_ == window || find(last_key_) != nullptr);
  regions_.push_back({last_key_, {const_cast<std::byte*>(memory.data()), memory.size()}, kind});
  return {last_key_, 0};
}

bool Regions::remove(std::uint32_t key) noexcept {
  const auto found = std::ranges::find(regions_, key, &Region::key);
  if (found == regions_.end()) return true;
  const bool is_read = found->kind == RegionKind::source;
  regions_.erase(found);
  return !is_read;
}

std::optional<RemoteAddress> Regions::address_of(std::span<const std::byte> memory) const noexcept {
  for (const Region& region : regions_) {
    if (region.kind != RegionKind::lasting || memory.data() < region.memory.data()) continue;
    const auto offset = static_cast<std::uint64_t>(memory.data() - region.memory.data());
    if (part_of(region.memory, offset, memory.size()) != nullptr)
      return RemoteAddress{region.key, offset};
  }
  return std::nullopt;
}

std::byte* Regions::writable(RemoteAddress address, std::size_t bytes) const noexcept {
  const Region* const region = find(address.region);
  if (region == nullptr || region->kind == RegionKind::source) return nullptr;
  return part_of(region->memory, address.offset, bytes);
}

const std::byte* Regions::readable(RemoteAddress address, std::size_t bytes) const noexcept {
  const Region* const region = find(address.region);
  if (region == nullptr || region->kind == RegionKind::target) return nullptr;
  return part_of(region->memory, address.offset, bytes);
}

const Regions::Region* Regions::find(std::uint32_t key) const noexcept {
  if (last_ < regions_.size() && regions_[last_].key == key) return &regions_[last_];
  const auto found = std::ranges::find(regions_, key, &Region::key);
  if (found == regions_.end()) return nullptr;
  last_ = static_cast<std::size_t>(found - regions_.begin());
  return &*found;
}

}  // namespace qpmesh::transport::tcp
