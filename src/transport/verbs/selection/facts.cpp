// SPDX-License-Identifier: MIT
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

Gid prefix_of(Gid gid, int bits) noexcept {
  for (std::uint8_t& byte : gid.bytes) {
    byte = static_cast<std::uint8_t>(byte & (0xff00 >> std::clamp(bits, 0, 8)));
    bits -= 8;
  }
  return gid;
}

std::string_view to_string(GidType type) noexcept {
  constexpr std::array<std::string_view, 4> names{"InfiniBand", "RoCE v1", "RoCE v2", "iWARP"};
  return names.at(static_cast<std::size_t>(type));
}

std::string_view to_string(LinkLayer layer) noexcept {
  constexpr std::array<std::string_view, 3> names{"unspecified", "InfiniBand", "Ethernet"};
  return names.at(static_cast<std::size_t>(layer));
}

std::string to_string(const Gid& gid) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  ::inet_ntop(AF_INET6, gid.bytes.data(), text.data(), text.size());  // cannot fail: the text fits
  return text.data();
}

std::string address_text(const Gid& gid) {
  constexpr std::string_view mapped = "::ffff:";
  const std::string text = to_string(gid);
  return is_ipv4(gid) ? text.substr(mapped.size()) : text;
}

}  // namespace qpmesh::transport::verbs::selection
