// SPDX-License-Identifier: MIT
// Stream sockets: Unix ones between processes of one host, where descriptors travel and the kernel
// says who is there; TCP between hosts, with a kernel that notices a dead one.
//
// All are non-blocking and close-on-exec. No call waits but await, none raises SIGPIPE. Functions
// that return an int return an errno, 0 for success.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/owned.hpp"
#include "base/system.hpp"
#include "qpmesh/bootstrap.hpp"

namespace qpmesh::bootstrap {

struct HostPort {
  std::string host;  // a name, an IPv4 or an IPv6 address without brackets
  std::uint16_t port = 0;

  bool operator==(const HostPort&) const = default;
};
std::string to_string(const HostPort& address);  // "10.0.0.1:4000", "[fd00::1]:4000"

struct Address {
  sockaddr_storage storage{};
  socklen_t bytes = 0;  // 0: no address

  const sockaddr* generic() const noexcept { return reinterpret_cast<const sockaddr*>(&storage); }
  int family() const noexcept { return bytes == 0 ? AF_UNSPEC : storage.ss_family; }
};
// Of a Unix socket whose name is abstract: it is gone with its last descriptor.
inline constexpr std::size_t unix_name_bytes_max = 100;  // a system has room for 107
Address unix_address(std::string_view name);
// Carries nothing but its randomness: what the kernel says and keys make a socket trusted, not its
// name.
std::string random_unix_name(const base::System& system);
// Nothing where the host is not an IPv4 or IPv6 address in numbers: no name is looked up.
std::optional<Address> numeric(const HostPort& address);
HostPort host_port(const Address& address);     // of TCP
std::string to_string(const Address& address);  // "@name", "10.0.0.1:4000"

Address local_address(int socket) noexcept;
Address remote_address(int socket) noexcept;
// The host of a TCP socket's own address, in numbers; empty where it means nothing to other hosts.
std::string host_of(int socket);
// Whom an address means something to.
enum class Scope : std::uint8_t {
  wildcard,
  loopback,    // this host
  link_local,  // IPv6: needs an interface
  any,
};
Scope scope_of(const Address& address) noexcept;

struct Opened {
  base::UniqueFd socket;
  int error = 0;
};
Opened listen_at(const base::System& system, const Address& address);  // EADDRINUSE: it is taken
// The socket is writable once it is connected, or has failed. EAGAIN: the queue of a Unix listener
// is full, which poll cannot tell the end of. source: of TCP, this host's end, without a port; no
// address: the system chooses.
Opened connect_to(const base::System& system, const Address& address, const Address& source = {});
// Of a socket that has become writable; sets it up.
int finish_connecting(const base::System& system, int socket);
// TCP: a dead host is noticed after user_timeout_ms, busy or idle. Nothing to do for a Unix socket.
int set_up(const base::System& system, int socket);
// After set_up: the time after which a silent host counts as dead, 3 s at least.
int set_silence_max(const base::System& system, int socket, std::int64_t silence_ms_max);

// TCP, until the socket next sends: from then on the kernel would put its acknowledgements off by
// 40 ms, for which a leaving peer waits.
void acknowledge_at_once(int socket) noexcept;

// Who connected to a Unix socket, or who listens, at the moment of connect or listen: the kernel
// says so, not the peer.
struct Credentials {
  pid_t pid = 0;
  uid_t uid = 0;
};
int read_credentials(const base::System& system, int socket, Credentials& credentials);

// What the kernel has against the process at the other end: empty if it may be one of us. Of a
// process of another host it knows nothing, and its proof has to do.
std::string reject_reason(const base::System& system, int socket);

// Whether an errno speaks of the connection, not of this process.
bool connection_broke(int error) noexcept;

// What came in one read.
struct Received {
  std::size_t count = 0;
  bool ended = false;      // end of stream
  bool truncated = false;  // the kernel dropped descriptors: this process has no room for them
  int error = 0;           // EAGAIN: nothing now
};
// Descriptors that came with the bytes fill the first empty places; surplus ones are closed.
Received receive(const base::System& system, int socket, std::span<std::byte> into,
                 std::span<base::UniqueFd> descriptors = {});

struct Sent {
  std::size_t count = 0;
  int error = 0;  // EAGAIN: full now
};
// Descriptors travel with the first byte.
Sent send(const base::System& system, int socket, BlobView bytes,
          std::span<const int> descriptors = {});

// Waits for events of one socket. 0, ETIMEDOUT at the deadline, or the errno of poll. Throws where
// the start is interrupted (base/interrupt.hpp).
int await(const base::System& system, int socket, short events, Deadline deadline);

}  // namespace qpmesh::bootstrap
