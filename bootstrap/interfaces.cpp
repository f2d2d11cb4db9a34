#include "bootstrap/interfaces.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "bootstrap/tcp_socket.hpp"
#include "qpmesh/error.hpp"

namespace qpmesh::bootstrap {
namespace {

tcp::Address address_of(const sockaddr& found) {
  tcp::Address address;
  if (found.sa_family == AF_INET) address.bytes = sizeof(sockaddr_in);
  if (found.sa_family == AF_INET6) address.bytes = sizeof(sockaddr_in6);
  std::memcpy(&address.storage, &found, address.bytes);
  return address;
}

tcp::Address read(const std::string& host) {
  return tcp::numeric({host, 0}).value_or(tcp::Address{});
}

}  // namespace

std::vector<std::string> interface_addresses(const base::System& system,
                                             std::string_view interface) {
  ifaddrs* list = nullptr;
  if (system.call("getifaddrs", [&] { return ::getifaddrs(&list); }) != 0) {
    throw Error{{.code = ErrorCode::no_resource,
                 .operation = "init",
                 .cause = "the addresses of this host cannot be read: getifaddrs failed",
                 .system_error = errno}};
  }
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner{list, &::freeifaddrs};
  struct Found {
    tcp::Address address;
    bool carrier = false;
  };
  std::vector<Found> found;
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || (each->ifa_flags & IFF_UP) == 0) continue;
    if (!interface.empty() && interface != each->ifa_name) continue;
    const tcp::Address address = address_of(*each->ifa_addr);
    if (address.bytes == 0 || tcp::is_link_local(address)) continue;
    found.push_back({.address = address, .carrier = (each->ifa_flags & IFF_RUNNING) != 0});
  }
  std::stable_sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
    const auto worth = [](const Found& each) {
      return 2 * int{each.carrier} + int{each.address.storage.ss_family == AF_INET};
    };
    return worth(a) > worth(b);
  });
  std::vector<std::string> hosts;
  hosts.reserve(found.size());
  for (const Found& each : found) hosts.push_back(tcp::host_port(each.address).host);
  return hosts;
}

std::vector<std::string> addresses_for(Reach reach, const std::string& bootstrap_address,
                                       std::span<const std::string> interface_addresses) {
  const tcp::Address told = read(bootstrap_address);
  const bool meaningful = told.bytes != 0 && !tcp::is_link_local(told);
  if (meaningful && !(tcp::is_loopback(told) && reach.beyond)) return {bootstrap_address};
  std::vector<std::string> chosen;
  const auto take = [&](bool loopback) {
    std::copy_if(interface_addresses.begin(), interface_addresses.end(), std::back_inserter(chosen),
                 [&](const std::string& each) { return tcp::is_loopback(read(each)) == loopback; });
  };
  if (reach.same_network) take(true);
  if (reach.beyond || chosen.empty()) take(false);
  return chosen;
}

}  // namespace qpmesh::bootstrap
