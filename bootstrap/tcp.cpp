#include "bootstrap/tcp.hpp"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sodium.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include "qpmesh/error.hpp"

namespace qpmesh::bootstrap {
namespace {

// A dead host is noticed within about three seconds, busy or idle.
constexpr int keepalive_idle_s = 1;
constexpr int keepalive_interval_s = 1;
constexpr int keepalive_count = 3;
constexpr unsigned user_timeout_ms = 3'000;

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

struct Resolved {
  AddressList list{nullptr, &::freeaddrinfo};
  int error = 0;        // errno, where resolving left one
  std::string problem;  // empty: the list is good
};

// Blocks as long as the resolver does: getaddrinfo knows no deadline. Numeric addresses never block.
Resolved resolve(const HostPort& address, const base::System& system) {
  addrinfo wish{};
  wish.ai_family = AF_UNSPEC;
  wish.ai_socktype = SOCK_STREAM;
  wish.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const std::string port = fmt::format("{}", address.port);
  const int result = system.call(
      "getaddrinfo", [&] { return ::getaddrinfo(address.host.c_str(), port.c_str(), &wish, &found); });
  Resolved resolved;
  if (result != 0) {
    resolved.error = result == EAI_SYSTEM ? errno : 0;
    resolved.problem = fmt::format("the name {} gives no address: {}", address.host, ::gai_strerror(result));
    return resolved;
  }
  resolved.list.reset(found);
  return resolved;
}

template <class T>
bool set(const base::System& system, int fd, int level, int name, T value) {
  return system.call("setsockopt", [&] { return ::setsockopt(fd, level, name, &value, sizeof value); }) == 0;
}

bool set_up_connection(const base::System& system, int fd) {
  return set(system, fd, IPPROTO_TCP, TCP_NODELAY, 1) && set(system, fd, SOL_SOCKET, SO_KEEPALIVE, 1) &&
         set(system, fd, IPPROTO_TCP, TCP_KEEPIDLE, keepalive_idle_s) &&
         set(system, fd, IPPROTO_TCP, TCP_KEEPINTVL, keepalive_interval_s) &&
         set(system, fd, IPPROTO_TCP, TCP_KEEPCNT, keepalive_count) &&
         set(system, fd, IPPROTO_TCP, TCP_USER_TIMEOUT, user_timeout_ms);
}

base::UniqueFd tcp_socket(const base::System& system, const addrinfo& address) {
  return base::UniqueFd{system.call(
      "socket", [&] { return ::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); })};
}

std::uint16_t port_of(const sockaddr_storage& address) {
  const auto* any = &address;
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6*>(any)->sin6_port
                                             : reinterpret_cast<const sockaddr_in*>(any)->sin_port);
}

// While nobody listens on a port of the ephemeral range, connecting to it on our own host may by chance use
// that very port as its source: then the socket is connected to itself.
bool connected_to_itself(int fd) {
  sockaddr_storage here{};
  sockaddr_storage there{};
  socklen_t here_bytes = sizeof here;
  socklen_t there_bytes = sizeof there;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&here), &here_bytes) != 0) return false;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&there), &there_bytes) != 0) return false;
  return here_bytes == there_bytes && std::memcmp(&here, &there, here_bytes) == 0;
}

// 0 or errno.
int connect_until(const base::System& system, int fd, const addrinfo& address, Deadline deadline) {
  if (system.call("connect", [&] { return ::connect(fd, address.ai_addr, address.ai_addrlen); }) == 0)
    return 0;
  if (errno != EINPROGRESS && errno != EINTR) return errno;
  for (;;) {
    pollfd entry{.fd = fd, .events = POLLOUT, .revents = 0};
    const int ready =
        system.call("poll", [&] { return ::poll(&entry, 1, base::remaining_ms(system, deadline)); });
    if (ready > 0) break;
    if (ready < 0 && errno != EINTR) return errno;
    if (system.now() >= deadline) return ETIMEDOUT;
  }
  int error = 0;
  socklen_t bytes = sizeof error;
  if (system.call("getsockopt", [&] { return ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes); }) != 0)
    return errno;
  return error;
}

[[noreturn]] void fail_listen(ErrorCode code, std::string cause, int error, std::string hint) {
  throw Error{{.code = code,
               .peer = 0,
               .operation = "init",
               .cause = std::move(cause),
               .system_error = error,
               .hint = std::move(hint)}};
}

}  // namespace

HostPort parse_host_port(std::string_view text, std::string_view variable, bool zero_port) {
  const auto refuse = [&](std::string_view why) {
    throw Error{
        {.code = ErrorCode::bad_config,
         .operation = "init",
         .cause = fmt::format(
             "{} is \"{}\": {}; allowed is host:port or [IPv6 address]:port with a port from 1 to 65535",
             variable, text, why),
         .hint = "for example node1:4000, an address of rank 0's host"}};
  };
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) refuse("it has no port");
  std::string_view host = text.substr(0, colon);
  const std::string_view digits = text.substr(colon + 1);
  if (host.starts_with('[')) {
    if (!host.ends_with(']')) refuse("the bracket is not closed");
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    refuse("an IPv6 address needs brackets");
  }
  if (host.empty()) refuse("it has no host");
  if (host.size() > 255 || host.find_first_of(" \t\n/") != std::string_view::npos)
    refuse("this is no host name");
  unsigned port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc{} || end != digits.data() + digits.size() || port > 65535)
    refuse("the port is not a number in range");
  if (port == 0 && !zero_port) refuse("the port is 0");
  return {std::string{host}, static_cast<std::uint16_t>(port)};
}

std::string to_string(const HostPort& address) {
  const bool bare = address.host.find(':') == std::string::npos;
  return bare ? fmt::format("{}:{}", address.host, address.port)
              : fmt::format("[{}]:{}", address.host, address.port);
}

Key key_from_secret(std::string_view secret) {
  constexpr std::string_view use = "qpmesh bootstrap over TCP, version 1";
  Key key;
  crypto_generichash(reinterpret_cast<unsigned char*>(key.data()), key.size(),
                     reinterpret_cast<const unsigned char*>(secret.data()), secret.size(),
                     reinterpret_cast<const unsigned char*>(use.data()), use.size());
  return key;
}

base::UniqueFd TcpDoorway::listen() {
  const Resolved resolved = resolve(root_, system_);
  if (!resolved.problem.empty())
    fail_listen(ErrorCode::bad_config, resolved.problem, resolved.error, "check QPMESH_ROOT");
  int last_error = 0;
  for (const addrinfo* address = resolved.list.get(); address != nullptr; address = address->ai_next) {
    base::UniqueFd fd = tcp_socket(system_, *address);
    if (!fd) {
      last_error = errno;
      continue;
    }
    // Connections of an earlier start may linger in TIME_WAIT; a living listener still makes bind fail.
    set(system_, fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
    if (system_.call("bind", [&] { return ::bind(fd.get(), address->ai_addr, address->ai_addrlen); }) != 0 ||
        system_.call("listen", [&] { return ::listen(fd.get(), SOMAXCONN); }) != 0) {
      last_error = errno;
      if (last_error == EADDRINUSE) {
        fail_listen(ErrorCode::bad_config, fmt::format("the port of {} is in use", place()), last_error,
                    "another job or service listens there; choose another port with QPMESH_ROOT");
      }
      continue;
    }
    sockaddr_storage bound{};
    socklen_t bytes = sizeof bound;
    if (system_.call("getsockname", [&] {
          return ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&bound), &bytes);
        }) != 0) {
      last_error = errno;
      continue;
    }
    root_.port = port_of(bound);
    return fd;
  }
  if (last_error == EADDRNOTAVAIL || last_error == EACCES) {
    fail_listen(
        ErrorCode::bad_config,
        fmt::format("rank 0 cannot listen on {}: {}", place(),
                    last_error == EACCES ? "the port is not allowed" : "this is no address of its host"),
        last_error, "QPMESH_ROOT must be an address of the host of rank 0");
  }
  fail_listen(ErrorCode::no_resource, fmt::format("rank 0 cannot listen on {}", place()), last_error, "");
}

Doorway::Attempt TcpDoorway::connect(Deadline deadline) {
  const Resolved resolved = resolve(root_, system_);
  if (!resolved.problem.empty()) return {{}, resolved.error, resolved.problem};
  Attempt attempt{{}, 0, fmt::format("{} has no address", place())};
  for (const addrinfo* address = resolved.list.get(); address != nullptr; address = address->ai_next) {
    attempt.problem = fmt::format("connect to {}", place());
    base::UniqueFd fd = tcp_socket(system_, *address);
    if (!fd) {
      attempt.error = errno;
      continue;
    }
    // Capped, so that an address that swallows packets does not use up the time of the next one.
    const Deadline until = std::min(deadline, system_.now() + std::chrono::milliseconds{attempt_timeout_ms_});
    attempt.error = connect_until(system_, fd.get(), *address, until);
    if (attempt.error != 0) continue;
    if (connected_to_itself(fd.get())) {
      attempt.error = ECONNREFUSED;
      continue;
    }
    if (!set_up_connection(system_, fd.get())) {
      attempt.error = errno;
      attempt.problem = "setting up the TCP connection";
      continue;
    }
    attempt.fd = std::move(fd);
    return attempt;
  }
  return attempt;
}

int TcpDoorway::prepare(int fd) const { return set_up_connection(system_, fd) ? 0 : errno; }

std::string TcpDoorway::secret_hint() const {
  return fmt::format("this rank's secret comes from {}; every rank of a job needs the same one",
                     secret_source_);
}

}  // namespace qpmesh::bootstrap
