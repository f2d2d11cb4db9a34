#include "transport/verbs/selection/facts.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <span>

namespace qpmesh::transport::verbs::selection {

bool is_ipv4(const Gid& gid) noexcept {
  constexpr std::array<std::uint8_t, 12> mapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::ranges::equal(mapped, std::span{gid.bytes}.first<mapped.size()>());
}

AddressKind kind_of(const Gid& gid) noexcept {
  const auto& bytes = gid.bytes;
  if (is_ipv4(gid)) {
    const bool link_local = bytes[12] == 169 && bytes[13] == 254;
    return link_local ? AddressKind::ipv4_link_local : AddressKind::ipv4;
  }
  const bool link_local = bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80;
  return link_local ? AddressKind::ipv6_link_local : AddressKind::ipv6;
}

std::string_view to_string(AddressKind kind) noexcept {
  switch (kind) {
    case AddressKind::ipv4: return "IPv4";
    case AddressKind::ipv4_link_local: return "link-local IPv4";
    case AddressKind::ipv6: return "IPv6";
    case AddressKind::ipv6_link_local: return "link-local IPv6";
  }
  return "unknown";
}

std::string_view to_string(GidType type) noexcept {
  switch (type) {
    case GidType::infiniband: return "InfiniBand";
    case GidType::roce_v1: return "RoCE v1";
    case GidType::roce_v2: return "RoCE v2";
  }
  return "unknown";
}

std::string_view to_string(LinkLayer layer) noexcept {
  switch (layer) {
    case LinkLayer::unspecified: return "unspecified";
    case LinkLayer::infiniband: return "InfiniBand";
    case LinkLayer::ethernet: return "Ethernet";
  }
  return "unknown";
}

std::string to_string(const Gid& gid) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  ::inet_ntop(AF_INET6, gid.bytes.data(), text.data(), text.size());  // cannot fail: the text fits
  return text.data();
}

}  // namespace qpmesh::transport::verbs::selection
