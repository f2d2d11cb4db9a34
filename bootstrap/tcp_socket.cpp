#include "bootstrap/tcp_socket.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace qpmesh::bootstrap {

std::string to_string(const HostPort& address) {
  const bool bare = address.host.find(':') == std::string::npos;
  return bare ? fmt::format("{}:{}", address.host, address.port)
              : fmt::format("[{}]:{}", address.host, address.port);
}

namespace tcp {
namespace {

constexpr int keepalive_idle_s = 1;
constexpr int keepalive_interval_s = 1;
constexpr int keepalive_count = 8;
// Beyond the 5 s for which a hypervisor may stop a host. The kernel counts from the first
// retransmission: a connection ends about half a second later when idle, and a second when busy.
constexpr unsigned user_timeout_ms = 7'500;

// By copy: what a sockaddr_storage holds is not of the type that it is read as.
template <class T>
T as(const Address& address) {
  T specific;
  std::memcpy(&specific, &address.storage, sizeof specific);
  return specific;
}
template <class T>
Address address_of(const T& specific) {
  Address address;
  std::memcpy(&address.storage, &specific, sizeof specific);
  address.bytes = sizeof specific;
  return address;
}

using AskForName = int (*)(int, sockaddr*, socklen_t*);
Address ask(AskForName name, int socket) noexcept {
  Address address;
  address.bytes = sizeof address.storage;
  if (name(socket, reinterpret_cast<sockaddr*>(&address.storage), &address.bytes) != 0) return {};
  return address;
}

template <class T>
bool set(const base::System& system, int socket, int level, int name, T value) {
  return system.call("setsockopt",
                     [&] { return ::setsockopt(socket, level, name, &value, sizeof value); }) == 0;
}

base::UniqueFd open_socket(const base::System& system, const Address& address) {
  return base::UniqueFd{system.call("socket", [&] {
    return ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  })};
}

// While nobody listens on a port of the ephemeral range, connecting to it on our own host may by
// chance use that very port as its source: then the socket is connected to itself.
bool connected_to_itself(int socket) {
  const Address here = local_address(socket);
  const Address there = remote_address(socket);
  return here.bytes != 0 && here.bytes == there.bytes &&
         std::memcmp(&here.storage, &there.storage, here.bytes) == 0;
}

}  // namespace

std::optional<Address> numeric(const HostPort& address) {
  sockaddr_in v4{};
  sockaddr_in6 v6{};
  v4.sin_family = AF_INET;
  v6.sin6_family = AF_INET6;
  v4.sin_port = v6.sin6_port = htons(address.port);
  if (::inet_pton(AF_INET, address.host.c_str(), &v4.sin_addr) == 1) return address_of(v4);
  if (::inet_pton(AF_INET6, address.host.c_str(), &v6.sin6_addr) == 1) return address_of(v6);
  return std::nullopt;
}

HostPort host_port(const Address& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.storage.ss_family == AF_INET) {
    const auto v4 = as<sockaddr_in>(address);
    ::inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
    return {text.data(), ntohs(v4.sin_port)};
  }
  if (address.storage.ss_family != AF_INET6) return {};
  const auto v6 = as<sockaddr_in6>(address);
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {  // IPv4 at a socket of both kinds
    ::inet_ntop(AF_INET, v6.sin6_addr.s6_addr + 12, text.data(), text.size());
    return {text.data(), ntohs(v6.sin6_port)};
  }
  ::inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size());
  return {text.data(), ntohs(v6.sin6_port)};
}

Address local_address(int socket) noexcept { return ask(::getsockname, socket); }
Address remote_address(int socket) noexcept { return ask(::getpeername, socket); }

bool is_wildcard(const Address& address) noexcept {
  if (address.storage.ss_family == AF_INET)
    return as<sockaddr_in>(address).sin_addr.s_addr == htonl(INADDR_ANY);
  if (address.storage.ss_family != AF_INET6) return false;
  const auto v6 = as<sockaddr_in6>(address);
  return IN6_IS_ADDR_UNSPECIFIED(&v6.sin6_addr);
}

bool is_loopback(const Address& address) noexcept {
  if (address.storage.ss_family == AF_INET)
    return ntohl(as<sockaddr_in>(address).sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
  if (address.storage.ss_family != AF_INET6) return false;
  const auto v6 = as<sockaddr_in6>(address);
  return IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr);
}

bool is_link_local(const Address& address) noexcept {
  if (address.storage.ss_family != AF_INET6) return false;
  const auto v6 = as<sockaddr_in6>(address);
  return IN6_IS_ADDR_LINKLOCAL(&v6.sin6_addr);
}

int set_up(const base::System& system, int socket) {
  const bool done = set(system, socket, IPPROTO_TCP, TCP_NODELAY, 1) &&
                    set(system, socket, SOL_SOCKET, SO_KEEPALIVE, 1) &&
                    set(system, socket, IPPROTO_TCP, TCP_KEEPIDLE, keepalive_idle_s) &&
                    set(system, socket, IPPROTO_TCP, TCP_KEEPINTVL, keepalive_interval_s) &&
                    set(system, socket, IPPROTO_TCP, TCP_KEEPCNT, keepalive_count) &&
                    set(system, socket, IPPROTO_TCP, TCP_USER_TIMEOUT, user_timeout_ms);
  return done ? 0 : errno;
}

void acknowledge_at_once(int socket) noexcept {
  constexpr int yes = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_QUICKACK, &yes, sizeof yes);
}

Listening listen_at(const base::System& system, const Address& address) {
  base::UniqueFd socket = open_socket(system, address);
  if (!socket) return {.socket = {}, .error = errno};
  // Connections of an earlier start may linger in TIME_WAIT; a living listener still makes bind
  // fail.
  set(system, socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (system.call("bind", [&] { return ::bind(socket.get(), address.generic(), address.bytes); }) !=
          0 ||
      system.call("listen", [&] { return ::listen(socket.get(), SOMAXCONN); }) != 0) {
    return {.socket = {}, .error = errno};
  }
  return {.socket = std::move(socket), .error = 0};
}

Connecting connect_to(const base::System& system, const Address& address) {
  base::UniqueFd socket = open_socket(system, address);
  if (!socket) return {.socket = {}, .error = errno};
  if (system.call("connect",
                  [&] { return ::connect(socket.get(), address.generic(), address.bytes); }) != 0 &&
      errno != EINPROGRESS && errno != EINTR) {
    return {.socket = {}, .error = errno};
  }
  return {.socket = std::move(socket), .error = 0};
}

int finish_connecting(const base::System& system, int socket) {
  int error = 0;
  socklen_t bytes = sizeof error;
  if (system.call("getsockopt",
                  [&] { return ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &bytes); }) != 0)
    return errno;
  if (error != 0) return error;
  return connected_to_itself(socket) ? ECONNREFUSED : 0;
}

}  // namespace tcp
}  // namespace qpmesh::bootstrap
