// TCP sockets between hosts: numeric addresses, connecting without waiting, and a kernel that
// notices a dead host.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>

#include "base/owned.hpp"
#include "base/system.hpp"

namespace qpmesh::bootstrap {

struct HostPort {
  std::string host;  // a name, an IPv4 or an IPv6 address without brackets
  std::uint16_t port = 0;

  bool operator==(const HostPort&) const = default;
};
std::string to_string(const HostPort& address);  // "10.0.0.1:4000", "[fd00::1]:4000"

namespace tcp {

// All sockets here are non-blocking and close-on-exec. Functions that return an int return an
// errno, 0 for success.

struct Address {
  sockaddr_storage storage{};
  socklen_t bytes = 0;

  const sockaddr* generic() const noexcept { return reinterpret_cast<const sockaddr*>(&storage); }
};
// Nothing where the host is not an IPv4 or IPv6 address in numbers: no name is looked up.
std::optional<Address> numeric(const HostPort& address);
HostPort host_port(const Address& address);

Address local_address(int socket) noexcept;   // bytes is 0 where the socket has none
Address remote_address(int socket) noexcept;  // likewise
bool is_wildcard(const Address& address) noexcept;
bool is_loopback(const Address& address) noexcept;
// IPv6: it needs an interface to mean anything
bool is_link_local(const Address& address) noexcept;

// A dead host is noticed within four seconds, busy or idle.
int set_up(const base::System& system, int socket);

// Until the socket next sends: from then on the kernel would put its acknowledgements off by 40 ms,
// for which a leaving peer waits.
void acknowledge_at_once(int socket) noexcept;

struct Listening {
  base::UniqueFd socket;
  int error = 0;
};
Listening listen_at(const base::System& system, const Address& address);

struct Connecting {
  base::UniqueFd socket;  // writable once it is connected, or has failed
  int error = 0;
};
Connecting connect_to(const base::System& system, const Address& address);
// Of a socket that has become writable.
int finish_connecting(const base::System& system, int socket);

}  // namespace tcp
}  // namespace qpmesh::bootstrap
