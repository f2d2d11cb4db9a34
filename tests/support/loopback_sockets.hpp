// SPDX-License-Identifier: MIT
// Two ends of a TCP connection over loopback.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <stdexcept>
#include <utility>

#include "base/owned.hpp"

namespace qpmesh::test {

// A port that nobody else listens at, and its socket.
struct LoopbackPort {
  base::UniqueFd socket;
  sockaddr_in address;
};
inline LoopbackPort loopback_port() {
  LoopbackPort port{.socket = base::UniqueFd{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)},
                    .address = {}};
  port.address.sin_family = AF_INET;
  port.address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof port.address;
  auto* const generic = reinterpret_cast<sockaddr*>(&port.address);
  if (::bind(port.socket.get(), generic, bytes) != 0 ||
      ::getsockname(port.socket.get(), generic, &bytes) != 0)
    throw std::runtime_error{"no port of loopback is free"};
  return port;
}

// buffer_bytes: of the kernel's buffers; 0: as the kernel has them.
inline std::array<base::UniqueFd, 2> loopback_sockets(int buffer_bytes = 0) {
  const auto [listener, address] = loopback_port();
  base::UniqueFd caller{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  if (buffer_bytes > 0) {  // before they connect: the window follows from it
    for (const int socket : {listener.get(), caller.get()}) {
      ::setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &buffer_bytes, sizeof buffer_bytes);
      ::setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &buffer_bytes, sizeof buffer_bytes);
    }
  }
  if (::listen(listener.get(), 1) != 0 ||
      ::connect(caller.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    throw std::runtime_error{"no connection over loopback"};
  return {base::UniqueFd{::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)},
          std::move(caller)};
}

}  // namespace qpmesh::test
