// SPDX-License-Identifier: MIT
#include "transport/shm/transport.hpp"

#include <cassert>

#include "base/cpu_copy.hpp"
#include "base/errors.hpp"
#include "transport/shm/store.hpp"

namespace qpmesh::transport::shm {

Post ShmConnection::post(std::span<const Write> chain) noexcept {
  if (fault() != nullptr) return Post::failed;
  for (const Write& write : chain) {
    assert(!write.immediate);  // capabilities said that there are none
    std::byte* const to = memory_.at(write.target.offset, write.head.size() + write.body.size());
    assert(to != nullptr);
    store_write<base::ProcessAtomics>(to, write);
    if (write.tell) ++completed_;  // the source has been read
  }
  memory_.wake_if_asleep();
  return Post::posted;
}

Post ShmConnection::read(std::span<std::byte> target, std::optional<std::uint32_t>,
                         RemoteAddress source) noexcept {
  if (fault() != nullptr) return Post::failed;
  const std::byte* const from = load(source, target.size());
  assert(from != nullptr);
  base::copy_bytes(target.data(), from, target.size());
  ++completed_;
  return Post::posted;
}

std::byte* ShmConnection::map(RemoteAddress target, std::size_t bytes) noexcept {
  return target.region == 0 ? memory_.at(target.offset, bytes) : nullptr;
}

Post ShmConnection::publish(std::byte* flag, std::uint32_t value) noexcept {
  if (fault() != nullptr) return Post::failed;
  store_flag<base::ProcessAtomics>(flag, value);
  memory_.wake_if_asleep();
  return Post::posted;
}

const std::byte* ShmConnection::load(RemoteAddress source, std::size_t bytes) noexcept {
  return map(source, bytes);
}

// Peers write rings and Buffers, and private memory only under a guard that its owner settles:
// there is nothing to fence beyond our own posts.
void ShmConnection::tear_down() noexcept {
  fault_.cause = "torn down here";  // words as short as these need no memory
}

RemoteAddress ShmTransport::register_memory(std::span<const std::byte> memory, RegionKind) {
  if (const auto address = address_of(memory)) return *address;
  base::throw_error(
      {ErrorCode::no_resource}, "register_memory", "use memory from Communicator::allocate",
      "{} bytes of private memory cannot be opened to peers on this host", memory.size());
}

std::optional<RemoteAddress> ShmTransport::address_of(
    std::span<const std::byte> memory) const noexcept {
  if (!arena_.contains(memory.data(), memory.size())) return std::nullopt;
  return RemoteAddress{.region = 0, .offset = arena_.offset_of(memory.data())};
}

}  // namespace qpmesh::transport::shm
