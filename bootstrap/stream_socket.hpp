// Bytes over a connected stream socket, Unix or TCP. Never waits, never raises SIGPIPE, is not
// interrupted.
#pragma once

#include <cstddef>
#include <span>

#include "base/system.hpp"
#include "qpmesh/bootstrap.hpp"

namespace qpmesh::bootstrap::stream {

// What came in one read.
struct Received {
  std::size_t count = 0;
  bool ended = false;  // end of stream
  int error = 0;       // errno; EAGAIN: nothing now
};
Received receive(const base::System& system, int socket, std::span<std::byte> into);

// Waits for events of one socket. 0, ETIMEDOUT at the deadline, or the errno of poll.
int await(const base::System& system, int socket, short events, Deadline deadline);

struct Sent {
  std::size_t count = 0;
  int error = 0;  // errno; EAGAIN: full now
};
Sent send(const base::System& system, int socket, BlobView bytes);

}  // namespace qpmesh::bootstrap::stream
