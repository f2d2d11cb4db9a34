// Two ends of a TCP connection over loopback.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <stdexcept>
#include <utility>

#include "base/owned.hpp"

namespace qpmesh::test {

// buffer_bytes: of the kernel's buffers; 0: as the kernel has them.
inline std::array<base::UniqueFd, 2> loopback_sockets(int buffer_bytes = 0) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  const base::UniqueFd listener{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  base::UniqueFd caller{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  if (buffer_bytes > 0) {  // before they connect: the window follows from it
    for (const int socket : {listener.get(), caller.get()}) {
      ::setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &buffer_bytes, sizeof buffer_bytes);
      ::setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &buffer_bytes, sizeof buffer_bytes);
    }
  }
  if (::bind(listener.get(), generic, bytes) != 0 || ::listen(listener.get(), 1) != 0 ||
      ::getsockname(listener.get(), generic, &bytes) != 0 ||
      ::connect(caller.get(), generic, bytes) != 0)
    throw std::runtime_error{"no connection over loopback"};
  return {base::UniqueFd{::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)},
          std::move(caller)};
}

}  // namespace qpmesh::test
