#include "transport/shm/transport.hpp"

#include <fmt/format.h>

#include "qpmesh/error.hpp"

namespace qpmesh::transport::shm {
namespace {

PeerMemory view(std::byte* data, std::size_t bytes, int doorbell) noexcept {
  return {.data = data,
          .bytes = bytes,
          .asleep = &reinterpret_cast<ArenaHeader*>(data)->asleep,
          .doorbell = doorbell};
}

}  // namespace

ShmTransport::ShmTransport(int rank, Arena& arena, int own_doorbell)
    : rank_{rank}, arena_{arena}, own_doorbell_{own_doorbell} {}

void ShmTransport::add_peer(int peer, const base::System& system, int arena_fd, std::size_t arena_bytes,
                            base::UniqueFd doorbell, base::ProcessMemory private_memory) {
  peers_.insert_or_assign(
      peer, Peer{map_arena(system, arena_fd, arena_bytes), std::move(doorbell), private_memory});
}

RemoteAddress ShmTransport::register_memory(std::span<std::byte> memory) { return register_source(memory); }

RemoteAddress ShmTransport::register_source(std::span<const std::byte> memory) {
  if (const auto address = address_of(memory)) return *address;
  throw Error{{.code = ErrorCode::no_resource,
               .operation = "register_memory",
               .cause = fmt::format("{} bytes of private memory cannot be opened to peers on this host",
                                    memory.size()),
               .hint = "use memory from Communicator::allocate"}};
}

std::optional<RemoteAddress> ShmTransport::address_of(std::span<const std::byte> memory) const noexcept {
  if (!arena_.contains(memory.data(), memory.size())) return std::nullopt;
  return RemoteAddress{.region = 0, .offset = arena_.offset_of(memory.data())};
}

PeerMemory ShmTransport::memory_of(int peer) const {
  if (peer == rank_) return view(arena_.data(), arena_.bytes(), own_doorbell_);
  const Peer& memory = peers_.at(peer);
  PeerMemory seen = view(memory.arena.data(), memory.arena.bytes(), memory.doorbell.get());
  seen.private_memory = memory.private_memory;
  return seen;
}

std::unique_ptr<Connection> ShmTransport::connect(int peer, BlobView) {
  return std::make_unique<ShmConnection>(peer, memory_of(peer));
}

}  // namespace qpmesh::transport::shm
