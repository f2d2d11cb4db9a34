// SPDX-License-Identifier: MIT
#include "context/allocations.hpp"

#include "qpmesh/error.hpp"

namespace qpmesh::context {

Allocation::~Allocation() {
  if (all_->parts.process.is_inherited()) return;
  const progress::HeldTurn turn{all_->waiter.turn()};
  for (const auto& [transport, region] : regions_) transport->deregister_memory(region);
  all_->by_offset.erase(offset_);
  all_->parts.arena->free(offset_, bytes_);
}

std::byte* Allocation::data() const noexcept { return all_->parts.arena->data() + offset_; }

void Allocation::register_with_devices() {
  if (bytes_ == 0) return;
  const progress::HeldTurn turn{all_->waiter.turn()};
  regions_.reserve(all_->parts.transports.size());
  for (const auto& transport : all_->parts.transports) {
    // Without registration it is memory like any other: messages are copied.
    try {
      regions_.emplace_back(
          transport.get(),
          transport->register_memory({data(), bytes_}, transport::RegionKind::lasting).region);
    } catch (const Error& error) {
      if (!std::exchange(all_->registration_failed, true))
        all_->parts.log.warning("{}; messages from and to Buffers are copied instead",
                                error.what());
    }
  }
}

std::shared_ptr<Allocation> Allocations::allocate(const std::shared_ptr<Allocations>& self,
                                                  std::size_t bytes) {
  const auto offset = self->parts.arena->allocate(bytes);
  if (!offset) return nullptr;
  auto allocation = std::make_shared<Allocation>(self, *offset, bytes);
  self->by_offset.insert_or_assign(*offset, allocation);
  return allocation;
}

std::shared_ptr<Allocation> Allocations::at(const void* address) const {
  if (!may_hold(address)) return nullptr;
  const auto after = by_offset.upper_bound(parts.arena->offset_of(address));
  return after == by_offset.begin() ? nullptr : std::prev(after)->second.lock();
}

}  // namespace qpmesh::context
