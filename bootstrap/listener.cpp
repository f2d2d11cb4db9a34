// SPDX-License-Identifier: MIT
#include "bootstrap/listener.hpp"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <functional>
#include <iterator>
#include <memory>
#include <utility>

#include "base/bytes.hpp"
#include "base/errors.hpp"
#include "base/text.hpp"
#include "bootstrap/init_error.hpp"
#include "bootstrap/socket.hpp"
#include "qpmesh/error.hpp"

namespace qpmesh::bootstrap {
namespace {

// A host has a handful. Callers try all of them in turn.
constexpr std::size_t addresses_max = 16;

Address address_of(const sockaddr& found) {
  Address address;
  if (found.sa_family == AF_INET) address.bytes = sizeof(sockaddr_in);
  if (found.sa_family == AF_INET6) address.bytes = sizeof(sockaddr_in6);
  std::memcpy(&address.storage, &found, address.bytes);
  return address;
}

int prefix_bits_of(const ifaddrs& each) {
  if (each.ifa_netmask == nullptr) return 0;
  const Address mask = address_of(*each.ifa_netmask);
  const bool is_v4 = mask.family() == AF_INET;
  const std::span all{reinterpret_cast<const unsigned char*>(&mask.storage), sizeof mask.storage};
  int bits = 0;
  for (const auto byte : is_v4 ? all.subspan(offsetof(sockaddr_in, sin_addr), sizeof(in_addr))
                               : all.subspan(offsetof(sockaddr_in6, sin6_addr), sizeof(in6_addr)))
    bits += std::popcount(byte);
  return bits;
}

Address read(const std::string& host) { return numeric({host, 0}).value_or(Address{}); }

Reach reach_of(std::span<const Introduction> everybody, const Introduction& mine) {
  Reach reach;
  for (const Introduction& other : everybody) {
    if (other.place == mine.place) continue;
    (same_network(other.place, mine.place) ? reach.same_network : reach.beyond) = true;
  }
  return reach;
}

}  // namespace

std::vector<InterfaceAddress> interfaces(const base::System& system) {
  ifaddrs* list = nullptr;
  if (system.call("getifaddrs", [&] { return ::getifaddrs(&list); }) != 0) {
    const int error = errno;
    fail_init(ErrorCode::no_resource, no_peer,
              "the addresses of this host cannot be read: getifaddrs failed",
              base::hint_for_descriptors(error), error);
  }
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner{list, &::freeifaddrs};
  std::vector<std::pair<int, InterfaceAddress>> found;  // worth
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || (each->ifa_flags & IFF_UP) == 0) continue;
    const Address address = address_of(*each->ifa_addr);
    if (address.bytes == 0 || scope_of(address) == Scope::link_local) continue;
    const bool carrier = (each->ifa_flags & IFF_RUNNING) != 0;
    found.emplace_back(
        2 * int{carrier} + int{address.family() == AF_INET},
        InterfaceAddress{each->ifa_name, host_port(address).host, prefix_bits_of(*each)});
  }
  std::ranges::stable_sort(found, std::greater{}, [](const auto& each) { return each.first; });
  std::vector<InterfaceAddress> all;
  all.reserve(found.size());
  for (auto& [worth, each] : found) all.push_back(std::move(each));
  return all;
}

std::vector<std::string> interface_addresses(const base::System& system) {
  std::vector<std::string> hosts;
  for (InterfaceAddress& each : interfaces(system)) hosts.push_back(std::move(each.host));
  return hosts;
}

std::vector<std::string> addresses_for(Reach reach, const std::string& bootstrap_address,
                                       std::span<const std::string> interface_addresses,
                                       bool any_network) {
  const Address told = read(bootstrap_address);
  const bool meaningful = told.bytes != 0 && scope_of(told) != Scope::link_local;
  std::vector<std::string> chosen;
  if (meaningful && !(scope_of(told) == Scope::loopback && reach.beyond)) {
    chosen.push_back(bootstrap_address);
    if (!reach.beyond || !any_network) return chosen;
    std::ranges::copy_if(interface_addresses, std::back_inserter(chosen), [&](const auto& each) {
      return each != bootstrap_address && scope_of(read(each)) != Scope::loopback;
    });
    return chosen;
  }
  const auto take = [&](bool loopback) {
    std::ranges::copy_if(
        interface_addresses, std::back_inserter(chosen),
        [&](Scope scope) { return (scope == Scope::loopback) == loopback; },
        [](const std::string& each) { return scope_of(read(each)); });
  };
  if (reach.same_network) take(true);
  if (reach.beyond || chosen.empty()) take(false);
  return chosen;
}

PortRange parse_port_range(std::string_view text) {
  if (text.empty()) return {};
  const auto dash = text.find('-');
  const auto port = [](std::string_view digits) -> std::uint16_t {
    const auto number = base::parse_integer(digits, false);
    return number && *number >= 1 && *number <= 65535 ? static_cast<std::uint16_t>(*number) : 0;
  };
  const PortRange ports{port(text.substr(0, dash)),
                        dash == text.npos ? std::uint16_t{0} : port(text.substr(dash + 1))};
  if (ports.first > 0 && ports.last >= ports.first) return ports;
  base::throw_error({ErrorCode::bad_config}, "options", "docs/options.md lists every variable",
                    "QPMESH_PORTS='{}', allowed: two ports from 1 to 65535, as 4000-4999", text);
}

namespace {

// From a port on that differs from start to start, so that ranks of a host rarely ask for the same.
Opened listen_within(const base::System& system, const std::string& host, PortRange ports) {
  if (ports.first == 0) return listen_at(system, read(host));
  const auto count = static_cast<std::uint64_t>(ports.last - ports.first) + 1;
  const std::uint64_t start = system.random_u64() % count;
  Opened opened;
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto port = static_cast<std::uint16_t>(ports.first + (start + i) % count);
    opened = listen_at(system, numeric({host, port}).value_or(Address{}));
    if (opened.error != EADDRINUSE && opened.error != EACCES) return opened;
  }
  return opened;
}

}  // namespace

std::vector<base::UniqueFd> listen_at_hosts(std::vector<std::string> hosts, PortRange ports,
                                            int rank, const std::string& own_host,
                                            const base::System& system, const base::Log& log) {
  if (hosts.size() > addresses_max) {
    log.info(
        "{} addresses: ranks of other hosts are heard at the first {}, to {} (QPMESH_NETDEV and "
        "QPMESH_SUBNET choose)",
        hosts.size(), addresses_max, hosts[addresses_max - 1]);
    hosts.resize(addresses_max);
  }
  std::vector<base::UniqueFd> listeners;
  std::string tried;
  int last_error = 0;
  for (const std::string& host : hosts) {
    Opened opened = listen_within(system, host, ports);
    if (opened.socket) {
      listeners.push_back(std::move(opened.socket));
      continue;
    }
    last_error = opened.error;
    const std::string why = base::describe_errno(last_error);
    tried += fmt::format("{}{} ({})", tried.empty() ? "" : ", ", host, why);
    log.info("cannot hear ranks of other hosts at {}: {}", host, why);
  }
  if (!listeners.empty()) return listeners;
  const bool no_port = ports.first != 0 && (last_error == EADDRINUSE || last_error == EACCES);
  fail_init(ErrorCode::no_resource, rank,
            tried.empty()
                ? fmt::format("host {} has no address at which ranks of other hosts could reach "
                              "rank {}",
                              own_host, rank)
                : fmt::format("rank {} on host {} cannot listen at any of its addresses: {}", rank,
                              own_host, tried),
            no_port ? fmt::format("every port of QPMESH_PORTS={}-{} is taken or not allowed: each "
                                  "rank of a host needs one or two of its own",
                                  ports.first, ports.last)
                    : "is a network interface up, with an IPv4 or a global IPv6 address?",
            last_error);
}

std::vector<base::UniqueFd> listen_beyond(std::span<const Introduction> everybody, int rank,
                                          const std::string& bootstrap_address, bool any_network,
                                          PortRange ports, const base::System& system,
                                          const base::Log& log) {
  const Introduction& mine = everybody[static_cast<std::size_t>(rank)];
  return listen_at_hosts(addresses_for(reach_of(everybody, mine), bootstrap_address,
                                       interface_addresses(system), any_network),
                         ports, rank, mine.host, system, log);
}

Blob encode_addresses(std::span<const HostPort> addresses) {
  base::ByteWriter writer;
  for (const HostPort& address : addresses) writer.put_text(address.host).put(address.port);
  return std::move(writer).blob();
}

std::vector<HostPort> read_addresses(BlobView blob, int rank) {
  base::ByteReader reader{blob};
  std::vector<HostPort> addresses;
  bool sound = true;
  while (sound && !reader.finished()) {
    HostPort& address = addresses.emplace_back();
    address.host = reader.get_text();
    address.port = reader.get<std::uint16_t>();
    // A name would be looked up.
    sound = reader.ok() && numeric(address) && addresses.size() <= addresses_max;
  }
  if (sound) return addresses;
  fail_corrupt_blob(rank,
                    fmt::format("the {} bytes of rank {} are no addresses", blob.size(), rank));
}

std::vector<HostPort> reachable(std::span<const HostPort> addresses, bool same_network) {
  std::vector<HostPort> found;
  std::ranges::copy_if(addresses, std::back_inserter(found), [&](const HostPort& each) {
    const auto there = numeric(each);
    return there && (same_network || scope_of(*there) != Scope::loopback);
  });
  return found;
}

}  // namespace qpmesh::bootstrap
