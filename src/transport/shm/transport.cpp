#include "transport/shm/transport.hpp"

#include "base/errors.hpp"

namespace qpmesh::transport::shm {

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
