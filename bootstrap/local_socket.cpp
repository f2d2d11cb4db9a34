#include "bootstrap/local_socket.hpp"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cassert>
#include <cstring>

namespace qpmesh::bootstrap::local {
namespace {

constexpr std::size_t descriptors_max = 4;  // that one message may carry

struct Address {
  sockaddr_un name{};
  socklen_t bytes = 0;
};

Address abstract_address(std::string_view name) {
  Address address;
  assert(name.size() < sizeof address.name.sun_path);
  address.name.sun_family = AF_UNIX;
  // The leading zero makes it abstract.
  std::memcpy(address.name.sun_path + 1, name.data(), name.size());
  address.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

base::UniqueFd open_socket(const base::System& system) {
  return base::UniqueFd{system.call(
      "socket", [] { return ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); })};
}

union ControlBuffer {
  cmsghdr header;  // for its alignment
  std::array<std::byte, CMSG_SPACE(descriptors_max * sizeof(int))> bytes;
};

void take_descriptors(msghdr& message, std::span<base::UniqueFd> places) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
      base::UniqueFd descriptor{number};
      const auto place =
          std::find_if(places.begin(), places.end(), [](const base::UniqueFd& fd) { return !fd; });
      if (place != places.end()) *place = std::move(descriptor);
    }
  }
}

}  // namespace

Listening listen_at(const base::System& system, std::string_view name) {
  Listening listening{.socket = open_socket(system)};
  const int socket = listening.socket.get();
  const Address address = abstract_address(name);
  if (!listening.socket ||
      system.call("bind",
                  [&] {
                    return ::bind(socket, reinterpret_cast<const sockaddr*>(&address.name),
                                  address.bytes);
                  }) != 0 ||
      system.call("listen", [&] { return ::listen(socket, SOMAXCONN); }) != 0)
    return {.socket = {}, .error = errno};
  return listening;
}

Connecting connect_to(const base::System& system, std::string_view name) {
  base::UniqueFd socket = open_socket(system);
  if (!socket) return {.socket = {}, .error = errno};
  const Address address = abstract_address(name);
  // A Unix connect never stays in progress: it is done, refused, or finds the queue full.
  if (system.call("connect", [&] {
        return ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address.name),
                         address.bytes);
      }) != 0) {
    return {.socket = {}, .error = errno};
  }
  return {.socket = std::move(socket), .error = 0};
}

int read_credentials(const base::System& system, int socket, Credentials& credentials) {
  ucred read{};
  socklen_t bytes = sizeof read;
  if (system.call("getsockopt", [&] {
        return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &read, &bytes);
      }) != 0)
    return errno;
  credentials = {.pid = read.pid, .uid = read.uid};
  return 0;
}

Received receive(const base::System& system, int socket, std::span<std::byte> into,
                 std::span<base::UniqueFd> descriptors) {
  iovec part{.iov_base = into.data(), .iov_len = into.size()};
  ControlBuffer control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes.data();
  message.msg_controllen = control.bytes.size();
  ssize_t count = -1;
  do {
    count = system.call(
        "recvmsg", [&] { return ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC); });
  } while (count < 0 && errno == EINTR);
  if (count < 0) return {.error = errno == EWOULDBLOCK ? EAGAIN : errno};
  take_descriptors(message, descriptors);
  return {.count = static_cast<std::size_t>(count),
          .ended = count == 0 && !into.empty(),
          .truncated = (message.msg_flags & MSG_CTRUNC) != 0};
}

stream::Sent send(const base::System& system, int socket, BlobView bytes,
                  std::span<const int> descriptors) {
  assert(descriptors.size() <= descriptors_max);
  iovec part{.iov_base = const_cast<std::byte*>(bytes.data()), .iov_len = bytes.size()};
  ControlBuffer control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    message.msg_control = control.bytes.data();
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    control.header = {.cmsg_len = CMSG_LEN(descriptors.size_bytes()),
                      .cmsg_level = SOL_SOCKET,
                      .cmsg_type = SCM_RIGHTS};
    std::memcpy(CMSG_DATA(&control.header), descriptors.data(), descriptors.size_bytes());
  }
  ssize_t count = -1;
  do {
    count = system.call("sendmsg",
                        [&] { return ::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL); });
  } while (count < 0 && errno == EINTR);
  if (count < 0) return {.error = errno == EWOULDBLOCK ? EAGAIN : errno};
  return {.count = static_cast<std::size_t>(count)};
}

}  // namespace qpmesh::bootstrap::local
