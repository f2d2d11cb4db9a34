#include "transport/shm/transport.hpp"

#include <fmt/format.h>

#include <utility>

#include "qpmesh/error.hpp"

namespace qpmesh::transport::shm {

ShmTransport::ShmTransport(int rank, Arena& arena, int own_doorbell) : arena_{arena} {
  neighbours_.emplace(rank, Neighbour{arena, own_doorbell});
}

void ShmTransport::add_peer(int peer, Neighbour memory) {
  neighbours_.emplace(peer, std::move(memory));
}

RemoteAddress ShmTransport::register_memory(std::span<std::byte> memory) {
  return register_source(memory);
}

RemoteAddress ShmTransport::register_source(std::span<const std::byte> memory) {
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

std::unique_ptr<Connection> ShmTransport::connect(int peer, BlobView) {
  return std::make_unique<ShmConnection>(peer, neighbour(peer));
}

}  // namespace qpmesh::transport::shm
