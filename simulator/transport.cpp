// SPDX-License-Identifier: MIT
#include "simulator/transport.hpp"

#include <fmt/format.h>

#include <cerrno>

#include "base/bytes.hpp"
#include "qpmesh/error.hpp"
#include "simulator/connection.hpp"

namespace qpmesh::simulator {

RemoteAddress Transport::register_memory(std::span<const std::byte> memory,
                                         transport::RegionKind kind) {
  if (system_.call("register_memory", [] { return 0; }) != 0) {
    throw Error{{.code = ErrorCode::no_resource,
                 .operation = "register_memory",
                 .cause = fmt::format("{} bytes could not be registered", memory.size()),
                 .system_error = errno,
                 .hint = {}}};
  }
  const std::span writable{const_cast<std::byte*>(memory.data()), memory.size()};
  const bool lasting = kind == transport::RegionKind::lasting;
  return {.region = fabric_.register_memory(port_, writable, lasting), .offset = 0};
}

std::uint32_t Transport::endpoint_for(int peer) {
  const auto waiting = waiting_.find(peer);
  if (waiting != waiting_.end()) return waiting->second;
  return waiting_.emplace(peer, fabric_.open_endpoint(port_, peer)).first->second;
}

Blob Transport::address_for(int peer) {
  return base::ByteWriter{}.put(static_cast<std::int32_t>(rank_)).put(endpoint_for(peer)).blob();
}

std::unique_ptr<transport::Connection> Transport::connect(int peer, BlobView peer_address) {
  base::ByteReader reader{peer_address};
  const auto rank = reader.get<std::int32_t>();
  const auto peer_endpoint = reader.get<std::uint32_t>();
  const std::uint32_t endpoint = endpoint_for(peer);
  if (!reader.finished() || rank != peer || !fabric_.bind(endpoint, peer_endpoint)) {
    throw Error{{.code = ErrorCode::bad_config,
                 .peer = peer,
                 .operation = "connect",
                 .cause = fmt::format("{} bytes are not an address of rank {} for rank {}",
                                      peer_address.size(), peer, rank_),
                 .hint = {}}};
  }
  waiting_.erase(peer);
  return std::make_unique<Connection>(fabric_, endpoint);
}

}  // namespace qpmesh::simulator
