#include "bootstrap/stream_socket.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

namespace qpmesh::bootstrap::stream {

Received receive(const base::System& system, int socket, std::span<std::byte> into) {
  ssize_t count = -1;
  do {
    count =
        system.call("recv", [&] { return ::recv(socket, into.data(), into.size(), MSG_DONTWAIT); });
  } while (count < 0 && errno == EINTR);
  if (count < 0) return {.error = errno == EWOULDBLOCK ? EAGAIN : errno};
  return {.count = static_cast<std::size_t>(count), .ended = count == 0 && !into.empty()};
}

int await(const base::System& system, int socket, short events, Deadline deadline) {
  for (;;) {
    pollfd entry{.fd = socket, .events = events, .revents = 0};
    const int ready = system.call(
        "poll", [&] { return ::poll(&entry, 1, base::remaining_ms(system, deadline)); });
    if (ready > 0) return 0;
    if (ready < 0 && errno != EINTR) return errno;
    if (system.now() >= deadline) return ETIMEDOUT;
  }
}

Sent send(const base::System& system, int socket, BlobView bytes) {
  ssize_t count = -1;
  do {
    count = system.call("send", [&] {
      return ::send(socket, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    });
  } while (count < 0 && errno == EINTR);
  if (count < 0) return {.error = errno == EWOULDBLOCK ? EAGAIN : errno};
  return {.count = static_cast<std::size_t>(count)};
}

}  // namespace qpmesh::bootstrap::stream
