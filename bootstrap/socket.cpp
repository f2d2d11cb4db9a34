// SPDX-License-Identifier: MIT
#include "bootstrap/socket.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <cstring>

#include "base/interrupt.hpp"
#include "bootstrap/init_error.hpp"

namespace qpmesh::bootstrap {
namespace {

constexpr std::size_t descriptors_max = 4;  // that one message may carry

constexpr int keepalive_idle_s = 1;
constexpr int keepalive_interval_s = 1;
constexpr int keepalive_count = 8;
// Beyond the 5 s for which a hypervisor may stop a host. The kernel counts from the first
// retransmission: a connection ends about half a second later when idle, and a second when busy.
constexpr unsigned user_timeout_ms = 7'500;
// An idle connection is asked twice at least: with a time for its silence the kernel ends it by
// that and not by keepalive_count, and one question may be lost.
constexpr std::int64_t silence_ms_min = 1'000 * (keepalive_idle_s + 2 * keepalive_interval_s);

// By copy: what a sockaddr_storage holds is not of the type that it is read as.
template <class T>
T as(const Address& address) {
  T specific;
  std::memcpy(&specific, &address.storage, sizeof specific);
  return specific;
}
template <class T>
Address address_of(const T& specific, std::size_t bytes = sizeof(T)) {
  Address address;
  std::memcpy(&address.storage, &specific, sizeof specific);
  address.bytes = static_cast<socklen_t>(bytes);
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
    return ::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
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
      const auto place = std::ranges::find_if(places, [](const auto& fd) { return !fd; });
      if (place != places.end()) *place = std::move(descriptor);
    }
  }
}

// Repeats what a signal interrupted. The count, or -1 and an errno of which EAGAIN means "not now".
template <class Call>
ssize_t transfer(const base::System& system, std::string_view site, const Call& call) {
  for (;;) {
    const ssize_t count = system.call(site, call);
    if (count >= 0 || errno != EINTR) return count;
  }
}

}  // namespace

std::string to_string(const HostPort& address) {
  const bool bare = address.host.find(':') == std::string::npos;
  return bare ? fmt::format("{}:{}", address.host, address.port)
              : fmt::format("[{}]:{}", address.host, address.port);
}

std::string random_unix_name(const base::System& system) {
  return fmt::format("qpmesh-{:016x}{:016x}", system.random_u64(), system.random_u64());
}

Address unix_address(std::string_view name) {
  sockaddr_un address{};
  static_assert(unix_name_bytes_max < sizeof address.sun_path);
  assert(name.size() <= unix_name_bytes_max);
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());  // the leading zero: abstract
  return address_of(address, offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

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
  if (address.family() == AF_INET) {
    const auto v4 = as<sockaddr_in>(address);
    ::inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
    return {text.data(), ntohs(v4.sin_port)};
  }
  if (address.family() != AF_INET6) return {};
  const auto v6 = as<sockaddr_in6>(address);
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {  // IPv4 at a socket of both kinds
    ::inet_ntop(AF_INET, v6.sin6_addr.s6_addr + 12, text.data(), text.size());
  } else {
    ::inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size());
  }
  return {text.data(), ntohs(v6.sin6_port)};
}

std::string to_string(const Address& address) {
  if (address.family() != AF_UNIX) return to_string(host_port(address));
  const auto local = as<sockaddr_un>(address);
  const std::span name{local.sun_path};
  const std::size_t end = address.bytes - offsetof(sockaddr_un, sun_path);
  std::string text = "@";
  for (std::size_t i = 1; i < std::min(end, name.size()); ++i) text += name[i];
  return text;
}

Address local_address(int socket) noexcept { return ask(::getsockname, socket); }
Address remote_address(int socket) noexcept { return ask(::getpeername, socket); }

std::string host_of(int socket) {
  const Address address = local_address(socket);
  return scope_of(address) == Scope::wildcard ? std::string{} : host_port(address).host;
}

Scope scope_of(const Address& address) noexcept {
  if (address.family() == AF_INET) {
    const auto host = ntohl(as<sockaddr_in>(address).sin_addr.s_addr);
    if (host == INADDR_ANY) return Scope::wildcard;
    return host >> 24 == IN_LOOPBACKNET ? Scope::loopback : Scope::any;
  }
  if (address.family() != AF_INET6) return Scope::any;
  const auto v6 = as<sockaddr_in6>(address);
  if (IN6_IS_ADDR_UNSPECIFIED(&v6.sin6_addr)) return Scope::wildcard;
  if (IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr)) return Scope::loopback;
  return IN6_IS_ADDR_LINKLOCAL(&v6.sin6_addr) ? Scope::link_local : Scope::any;
}

Opened listen_at(const base::System& system, const Address& address) {
  base::UniqueFd socket = open_socket(system, address);
  if (!socket) return {.socket = {}, .error = errno};
  // TCP connections of an earlier start may linger in TIME_WAIT; bind still fails at a living
  // listener.
  if (address.family() != AF_UNIX) set(system, socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (system.call("bind", [&] { return ::bind(socket.get(), address.generic(), address.bytes); }) !=
          0 ||
      system.call("listen", [&] { return ::listen(socket.get(), SOMAXCONN); }) != 0)
    return {.socket = {}, .error = errno};
  return {.socket = std::move(socket)};
}

Opened connect_to(const base::System& system, const Address& address, const Address& source) {
  base::UniqueFd socket = open_socket(system, address);
  if (!socket) return {.socket = {}, .error = errno};
  if (source.bytes != 0) {
    // The port is chosen by connect, of those that are free towards this target. A kernel that does
    // not know the option chooses among those that are free towards all.
    set(system, socket.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
    if (system.call("bind", [&] { return ::bind(socket.get(), source.generic(), source.bytes); }) !=
        0)
      return {.socket = {}, .error = errno};
  }
  if (system.call("connect",
                  [&] { return ::connect(socket.get(), address.generic(), address.bytes); }) != 0 &&
      errno != EINPROGRESS && errno != EINTR)
    return {.socket = {}, .error = errno};
  return {.socket = std::move(socket)};
}

int finish_connecting(const base::System& system, int socket) {
  int error = 0;
  socklen_t bytes = sizeof error;
  if (system.call("getsockopt",
                  [&] { return ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &bytes); }) != 0)
    return errno;
  if (error != 0) return error;
  return connected_to_itself(socket) ? ECONNREFUSED : set_up(system, socket);
}

int set_up(const base::System& system, int socket) {
  if (local_address(socket).family() == AF_UNIX) return 0;
  const bool done = set(system, socket, IPPROTO_TCP, TCP_NODELAY, 1) &&
                    set(system, socket, SOL_SOCKET, SO_KEEPALIVE, 1) &&
                    set(system, socket, IPPROTO_TCP, TCP_KEEPIDLE, keepalive_idle_s) &&
                    set(system, socket, IPPROTO_TCP, TCP_KEEPINTVL, keepalive_interval_s) &&
                    set(system, socket, IPPROTO_TCP, TCP_KEEPCNT, keepalive_count);
  return done ? set_silence_max(system, socket, user_timeout_ms) : errno;
}

int set_silence_max(const base::System& system, int socket, std::int64_t silence_ms_max) {
  const auto timeout = static_cast<unsigned>(std::max(silence_ms_max, silence_ms_min));
  return set(system, socket, IPPROTO_TCP, TCP_USER_TIMEOUT, timeout) ? 0 : errno;
}

void acknowledge_at_once(int socket) noexcept {
  constexpr int yes = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_QUICKACK, &yes, sizeof yes);
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

std::string reject_reason(const base::System& system, int socket) {
  if (local_address(socket).family() != AF_UNIX) return {};
  Credentials there;
  if (const int error = read_credentials(system, socket, there); error != 0)
    return fmt::format("the kernel does not say whose process it is (errno {})", error);
  if (there.uid == ::geteuid()) return {};
  return fmt::format("its user is uid {}, ours is uid {} (pid {})", there.uid, ::geteuid(),
                     there.pid);
}

bool connection_broke(int error) noexcept {
  return error == EPIPE || error == ECONNRESET || error == ETIMEDOUT || error == EHOSTUNREACH ||
         error == ENETUNREACH;
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
  const ssize_t count = transfer(system, "recvmsg", [&] {
    return ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  });
  if (count < 0) return {.error = errno};
  take_descriptors(message, descriptors);
  return {.count = static_cast<std::size_t>(count),
          .ended = count == 0 && !into.empty(),
          .truncated = (message.msg_flags & MSG_CTRUNC) != 0};
}

Sent send(const base::System& system, int socket, BlobView bytes,
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
  const ssize_t count = transfer(
      system, "sendmsg", [&] { return ::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL); });
  // Memory that the system lacks now is no end of the connection.
  if (count < 0) return {.error = errno == ENOBUFS || errno == ENOMEM ? EAGAIN : errno};
  return {.count = static_cast<std::size_t>(count)};
}

int await(const base::System& system, int socket, short events, Deadline deadline) {
  for (;;) {
    pollfd entry{.fd = socket, .events = events, .revents = 0};
    const int ready = base::poll_in_start(system, {&entry, 1}, deadline);
    if (ready > 0) return 0;
    if (ready < 0 && errno != EINTR) return errno;
    if (system.now() >= deadline) return ETIMEDOUT;
  }
}

}  // namespace qpmesh::bootstrap
