#include "transport/verbs/interfaces.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <optional>
#include <span>

namespace qpmesh::transport::verbs {
namespace {

struct FreeInterfaces {
  void operator()(ifaddrs* first) const noexcept { ::freeifaddrs(first); }
};

// The bytes of an address or netmask inside its sockaddr; empty for families that GIDs are not made
// from.
std::span<const std::uint8_t> address_bytes(const sockaddr* address, sa_family_t family) noexcept {
  if (address == nullptr) return {};
  const auto* const begin = reinterpret_cast<const std::uint8_t*>(address);
  if (family == AF_INET) return {begin + offsetof(sockaddr_in, sin_addr), sizeof(in_addr)};
  if (family == AF_INET6) return {begin + offsetof(sockaddr_in6, sin6_addr), sizeof(in6_addr)};
  return {};
}

std::optional<selection::InterfaceAddress> read_address(const ifaddrs& entry) {
  if (entry.ifa_addr == nullptr) return std::nullopt;
  const auto family = entry.ifa_addr->sa_family;
  const auto address = address_bytes(entry.ifa_addr, family);
  if (address.empty()) return std::nullopt;
  selection::InterfaceAddress found;
  if (family == AF_INET) found.address.bytes[10] = found.address.bytes[11] = 0xff;
  std::ranges::copy(address,
                    found.address.bytes.end() - static_cast<std::ptrdiff_t>(address.size()));
  for (const auto byte : address_bytes(entry.ifa_netmask, family))
    found.prefix_bits += std::popcount(byte);
  return found;
}

}  // namespace

std::vector<Interface> interfaces(const base::System& system) {
  ifaddrs* first = nullptr;
  if (system.call("getifaddrs", [&] { return ::getifaddrs(&first); }) != 0) return {};
  const std::unique_ptr<ifaddrs, FreeInterfaces> owner{first};
  std::vector<Interface> found;
  for (const auto* entry = first; entry != nullptr; entry = entry->ifa_next) {
    auto known = std::ranges::find(found, std::string_view{entry->ifa_name}, &Interface::name);
    if (known == found.end()) {
      found.push_back({.name = entry->ifa_name,
                       .index = ::if_nametoindex(entry->ifa_name),
                       .up = (entry->ifa_flags & IFF_UP) != 0});
      known = found.end() - 1;
    }
    if (const auto address = read_address(*entry)) known->addresses.push_back(*address);
  }
  return found;
}

}  // namespace qpmesh::transport::verbs
