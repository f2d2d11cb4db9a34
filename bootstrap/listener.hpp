// Where a rank listens for ranks that are not in its place: at which addresses of this host.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/log.hpp"
#include "base/owned.hpp"
#include "base/system.hpp"
#include "bootstrap/introduction.hpp"
#include "bootstrap/socket.hpp"

namespace qpmesh::bootstrap {

// Whether two ranks have the same interfaces, loopback among them.
bool same_network(const Introduction& a, const Introduction& b);

// In numbers, as the kernel lists them: those of interfaces that are up, loopback too. Interfaces
// with a carrier come before those without, IPv4 before IPv6. Link-local IPv6 addresses, which mean
// nothing on another host, are left out. Throws Error{no_resource}.
std::vector<std::string> interface_addresses(const base::System& system);

// Which ranks must be reached, beside those in the same place.
struct Reach {
  bool same_network = false;  // some on this host: they have our loopback
  bool beyond = false;        // some that do not
};

// The address that the bootstrap uses, where it is of use to all; otherwise loopback for those who
// have it too, every other address for those who do not.
std::vector<std::string> addresses_for(Reach reach, const std::string& bootstrap_address,
                                       std::span<const std::string> interface_addresses);

// Listens at these addresses, on ports that the kernel chooses. An address at which this rank
// cannot listen is left out, with a line in the log. Throws Error{no_resource} where none is left.
std::vector<base::UniqueFd> listen_beyond(std::span<const Introduction> everybody, int rank,
                                          const std::string& bootstrap_address,
                                          const base::System& system, const base::Log& log);

// Where a rank listens, for the other ranks. Reading throws Error{corrupt} naming the rank.
Blob encode_addresses(std::span<const HostPort> addresses);
std::vector<HostPort> read_addresses(BlobView blob, int rank);

}  // namespace qpmesh::bootstrap
