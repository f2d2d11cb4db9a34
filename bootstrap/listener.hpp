// SPDX-License-Identifier: MIT
// Where a rank listens for ranks that are not in its place: at which addresses of this host.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.hpp"
#include "base/owned.hpp"
#include "base/system.hpp"
#include "bootstrap/introduction.hpp"
#include "bootstrap/socket.hpp"

namespace qpmesh::bootstrap {

// An address of this host, in numbers.
struct InterfaceAddress {
  std::string netdev;
  std::string host;
  int prefix_bits = 0;  // 24 of 10.0.0.1/24
};
// As the kernel lists them: those of interfaces that are up, loopback too. Interfaces with a
// carrier come before those without, IPv4 before IPv6. Link-local IPv6 addresses, which mean
// nothing on another host, are left out. Throws Error{no_resource}.
std::vector<InterfaceAddress> interfaces(const base::System& system);
std::vector<std::string> interface_addresses(const base::System& system);  // of these, the hosts

// Which ranks must be reached, beside those in the same place.
struct Reach {
  bool same_network = false;  // some on this host: they have our loopback
  bool beyond = false;        // some that do not
};

// In the order in which they are tried. The address that the bootstrap uses, where it is of use to
// all, and every other one but loopback for those beyond, where any network may be used: the
// bootstrap's may lead from rank 0 alone to here. Otherwise loopback for those who have it too,
// every other address for those who do not.
std::vector<std::string> addresses_for(Reach reach, const std::string& bootstrap_address,
                                       std::span<const std::string> interface_addresses,
                                       bool any_network = true);

// Ports that a rank may listen at; first 0: whichever the kernel chooses.
struct PortRange {
  std::uint16_t first = 0;
  std::uint16_t last = 0;
};
// QPMESH_PORTS: "4000-4999", or empty. Throws Error{bad_config}.
PortRange parse_port_range(std::string_view text);

// Listens at these addresses, at most 16. One at which this rank cannot listen is left out, with a
// line in the log, as those beyond 16 are. Throws Error{no_resource} where none is left, with all
// of them. own_host: for people.
std::vector<base::UniqueFd> listen_at_hosts(std::vector<std::string> hosts, PortRange ports,
                                            int rank, const std::string& own_host,
                                            const base::System& system, const base::Log& log);

// The same at the addresses that ranks in other places need. any_network: the user has not said
// which ones to use.
std::vector<base::UniqueFd> listen_beyond(std::span<const Introduction> everybody, int rank,
                                          const std::string& bootstrap_address, bool any_network,
                                          PortRange ports, const base::System& system,
                                          const base::Log& log);

// Where a rank listens, for the other ranks. Reading throws Error{corrupt} naming the rank.
Blob encode_addresses(std::span<const HostPort> addresses);
std::vector<HostPort> read_addresses(BlobView blob, int rank);
// Of these, where a rank can be called. Loopback leads to it only from its own network.
std::vector<HostPort> reachable(std::span<const HostPort> addresses, bool same_network);

}  // namespace qpmesh::bootstrap
