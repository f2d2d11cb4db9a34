// The addresses of this host, and which of them ranks elsewhere shall be told.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/system.hpp"

namespace qpmesh::bootstrap {

// In numbers, as the kernel lists them: those of interfaces that are up, loopback too. Interfaces
// with a carrier come before those without, IPv4 before IPv6. Link-local IPv6 addresses, which mean
// nothing on another host, are left out. interface: only this one's; empty: every one's. Throws
// Error{no_resource}.
std::vector<std::string> interface_addresses(const base::System& system,
                                             std::string_view interface = {});

// Which ranks must be reached, beside those in the same place.
struct Reach {
  bool same_network = false;  // some on this host: they have our loopback
  bool beyond = false;        // some that do not
};

// Where to listen: the address that the bootstrap uses, where it is of use to all; otherwise
// loopback for those who have it too, every other address for those who do not.
std::vector<std::string> addresses_for(Reach reach, const std::string& bootstrap_address,
                                       std::span<const std::string> interface_addresses);

}  // namespace qpmesh::bootstrap
