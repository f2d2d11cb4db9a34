// SPDX-License-Identifier: MIT
#include "transport/verbs/cm_request.hpp"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>

#include "base/bytes.hpp"

namespace qpmesh::transport::verbs {

std::array<std::byte, cm_request_bytes> encode(const CmRequest& request) {
  base::ByteWriter out;
  out.put_fields(request.job, request.caller, request.called);
  std::array<std::byte, cm_request_bytes> bytes{};
  std::ranges::copy(out.blob(), bytes.begin());
  return bytes;
}

std::optional<CmRequest> decode_cm_request(BlobView bytes) {
  if (bytes.size() < cm_request_bytes) return std::nullopt;
  base::ByteReader in{bytes.first(cm_request_bytes)};
  CmRequest request;
  in.get_fields(request.job, request.caller, request.called);
  return request;
}

sockaddr_storage socket_address(const selection::Gid& gid, std::uint16_t port,
                                const std::string& netdev) {
  sockaddr_storage storage{};
  if (selection::is_ipv4(gid)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    std::memcpy(&address.sin_addr, gid.bytes.data() + 12, sizeof address.sin_addr);
    std::memcpy(&storage, &address, sizeof address);
    return storage;
  }
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(port);
  std::memcpy(&address.sin6_addr, gid.bytes.data(), sizeof address.sin6_addr);
  if (kind_of(gid) == selection::AddressKind::ipv6_link_local)
    address.sin6_scope_id = ::if_nametoindex(netdev.c_str());
  std::memcpy(&storage, &address, sizeof address);
  return storage;
}

}  // namespace qpmesh::transport::verbs
