// SPDX-License-Identifier: MIT
#include "transport/verbs/regions.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <utility>

#include "base/errors.hpp"
#include "transport/verbs/handles.hpp"

namespace qpmesh::transport::verbs {
namespace {

[[noreturn]] void fail(std::size_t bytes, std::size_t registered_bytes, int error) {
  rlimit limit{};
  const bool limited = ::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  const bool memlock = limited && (error == ENOMEM || error == EPERM || error == EAGAIN);
  const std::string have =
      memlock ? fmt::format("; this process may lock {} bytes (RLIMIT_MEMLOCK)", limit.rlim_cur)
              : "";
  base::throw_error(
      {.code = ErrorCode::no_resource, .system_error = error}, "register_memory",
      memlock ? "raise it: ulimit -l unlimited, or memlock in /etc/security/limits.conf, or "
                "LimitMEMLOCK=infinity in the service"
              : "",
      "{} bytes could not be registered with the device, {} are already{}", bytes, registered_bytes,
      have);
}

}  // namespace

RemoteAddress Regions::add(std::span<const std::byte> memory, RegionKind kind) {
  regions_.reserve(regions_.size() + 1);  // before the region exists: nothing below throws
  // What is read over iWARP lands only in memory that is open for writes, too.
  const int flags = kind == RegionKind::source
                        ? IBV_ACCESS_REMOTE_READ
                        : IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  MemoryRegion handle{call_for_object(system_, "ibv_reg_mr", [&] {
    return ibv_reg_mr(&domain_, const_cast<std::byte*>(memory.data()), memory.size(), flags);
  })};
  if (!handle) fail(memory.size(), bytes_, errno);
  const RemoteAddress address{handle->rkey, reinterpret_cast<std::uintptr_t>(memory.data())};
  regions_.push_back(
      {std::move(handle), memory.data(), memory.size(), kind == RegionKind::lasting});
  bytes_ += memory.size();
  return address;
}

// The keys are invalid when ibv_dereg_mr(3) returns: a peer's access by them fails with a remote
// access error (InfiniBand specification, volume 1, section 10.6.7).
bool Regions::remove(std::uint32_t remote_key) noexcept {
  const auto found = std::ranges::find(regions_, remote_key, &Region::remote_key);
  if (found == regions_.end()) return true;
  if (call_for_status(system_, "ibv_dereg_mr", [&] { return ibv_dereg_mr(found->handle.get()); }) !=
      0)
    return false;
  static_cast<void>(found->handle.release());
  bytes_ -= found->bytes;
  regions_.erase(found);
  last_ = 0;
  return true;
}

// Few: the rings, Buffers, and buffers of large messages on their way.
const Regions::Region* Regions::find_lasting(std::span<const std::byte> memory) const noexcept {
  const auto has_it = [&](const Region& region) {
    return region.lasting && region.contains(memory);
  };
  if (last_ < regions_.size() && has_it(regions_[last_])) return &regions_[last_];
  const auto found = std::find_if(regions_.begin(), regions_.end(), has_it);
  if (found == regions_.end()) return nullptr;
  last_ = static_cast<std::size_t>(found - regions_.begin());
  return &*found;
}

std::optional<RemoteAddress> Regions::address_of(std::span<const std::byte> memory) const noexcept {
  const Region* const region = find_lasting(memory);
  if (region == nullptr) return std::nullopt;
  return RemoteAddress{region->handle->rkey, reinterpret_cast<std::uintptr_t>(memory.data())};
}

std::optional<std::uint32_t> Regions::local_key(
    std::span<const std::byte> memory, std::optional<std::uint32_t> remote_key) const noexcept {
  if (!remote_key) {
    const Region* const region = find_lasting(memory);
    return region == nullptr ? std::nullopt : std::optional{region->handle->lkey};
  }
  const auto found = std::ranges::find(regions_, *remote_key, &Region::remote_key);
  if (found == regions_.end() || !found->contains(memory)) return std::nullopt;
  return found->handle->lkey;
}

}  // namespace qpmesh::transport::verbs
