// Unix stream sockets between processes of one host: abstract names, the kernel's word on who is
// there, descriptors that travel.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

#include "base/owned.hpp"
#include "base/system.hpp"
#include "bootstrap/stream_socket.hpp"
#include "qpmesh/bootstrap.hpp"

namespace qpmesh::bootstrap::local {

// All sockets here are non-blocking and close-on-exec; writing to a closed one never raises
// SIGPIPE. Functions that return an int return an errno, 0 for success.

// Under an abstract name, which is gone with its last descriptor.
struct Listening {
  base::UniqueFd socket;
  int error = 0;  // EADDRINUSE: the name is taken
};
Listening listen_at(const base::System& system, std::string_view name);

struct Connecting {
  base::UniqueFd socket;
  int error = 0;  // EAGAIN: the listener's queue is full, try again later
};
Connecting connect_to(const base::System& system, std::string_view name);

// Who connected, or who listens, at the moment of connect or listen; the kernel says, not the peer.
struct Credentials {
  pid_t pid = 0;
  uid_t uid = 0;
};
int read_credentials(const base::System& system, int socket, Credentials& credentials);

// What came in one read.
struct Received {
  std::size_t count = 0;
  bool ended = false;      // end of stream
  bool truncated = false;  // the kernel dropped descriptors: this process has no room for them
  int error = 0;           // EAGAIN: nothing now
};
// Puts descriptors that travelled with the bytes into the first empty places; surplus ones are
// closed.
Received receive(const base::System& system, int socket, std::span<std::byte> into,
                 std::span<base::UniqueFd> descriptors);

// Descriptors travel with the first byte.
stream::Sent send(const base::System& system, int socket, BlobView bytes,
                  std::span<const int> descriptors);

}  // namespace qpmesh::bootstrap::local
