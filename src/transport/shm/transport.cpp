#include "transport/shm/transport.hpp"

#include <fmt/format.h>

#include "qpmesh/error.hpp"

namespace qpmesh::transport::shm {

RemoteAddress ShmTransport::register_memory(std::span<const std::byte> memory, RegionKind) {
  if (const auto address = address_of(memory)) return *address;
  throw Error{
      {.code = ErrorCode::no_resource,
       .operation = "register_memory",
       .cause = fmt::format("{} bytes of private memory cannot be opened to peers on this host",
                            memory.size()),
       .hint = "use memory from Communicator::allocate"}};
}

std::optional<RemoteAddress> ShmTransport::address_of(
    std::span<const std::byte> memory) const noexcept {
  if (!arena_.contains(memory.data(), memory.size())) return std::nullopt;
  return RemoteAddress{.region = 0, .offset = arena_.offset_of(memory.data())};
}

}  // namespace qpmesh::transport::shm
