#include "context/allocations.hpp"

#include "qpmesh/error.hpp"

namespace qpmesh::context {

Allocation::Allocation(std::shared_ptr<Allocations> all, std::uint64_t offset,
                       std::size_t bytes) noexcept
    : all_{std::move(all)}, offset_{offset}, bytes_{bytes} {}

Allocation::~Allocation() {
  if (!all_->parts_.process.is_inherited()) all_->remove(offset_, bytes_);
}

std::byte* Allocation::data() const noexcept { return all_->parts_.arena->data() + offset_; }

std::shared_ptr<Allocation> Allocations::allocate(const std::shared_ptr<Allocations>& self,
                                                  std::size_t bytes) {
  const auto offset = self->parts_.arena->allocate(bytes);
  if (!offset) return nullptr;
  auto allocation = std::make_shared<Allocation>(self, *offset, bytes);
  Entry entry{.owner = allocation, .regions = {}};
  entry.regions.reserve(self->parts_.transports.size());
  self->entries_.insert_or_assign(*offset, std::move(entry));
  return allocation;
}

void Allocations::register_with_devices(const Allocation& allocation) {
  if (allocation.bytes() == 0) return;
  Entry& entry = entries_.at(parts_.arena->offset_of(allocation.data()));
  for (const auto& transport : parts_.transports) {
    // Without registration it is memory like any other: messages are copied.
    try {
      const auto address = transport->register_memory({allocation.data(), allocation.bytes()});
      entry.regions.emplace_back(transport.get(), address.region);
    } catch (const Error& error) {
      if (!std::exchange(registration_failed_, true))
        parts_.log.warning("{}; messages from and to Buffers are copied instead", error.what());
    }
  }
}

std::shared_ptr<Allocation> Allocations::at(const void* address) const {
  if (!parts_.arena->contains(address, 1)) return nullptr;
  const auto after = entries_.upper_bound(parts_.arena->offset_of(address));
  if (after == entries_.begin()) return nullptr;
  return std::prev(after)->second.owner.lock();
}

void Allocations::remove(std::uint64_t offset, std::size_t bytes) noexcept {
  if (const auto entry = entries_.find(offset); entry != entries_.end()) {
    for (const auto& [transport, region] : entry->second.regions)
      transport->deregister_memory(region);
    entries_.erase(entry);
  }
  parts_.arena->free(offset, bytes);
}

}  // namespace qpmesh::context
