#include "bootstrap/tcp.hpp"

#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sodium.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include "bootstrap/stream_socket.hpp"
#include "qpmesh/error.hpp"

namespace qpmesh::bootstrap {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

struct Resolved {
  AddressList list{nullptr, &::freeaddrinfo};
  int error = 0;        // errno, where resolving left one
  std::string problem;  // empty: the list is good
};

// Blocks as long as the resolver does: getaddrinfo knows no deadline. Numeric addresses never
// block.
Resolved resolve(const HostPort& address, const base::System& system) {
  addrinfo wish{};
  wish.ai_family = AF_UNSPEC;
  wish.ai_socktype = SOCK_STREAM;
  wish.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const std::string port = fmt::format("{}", address.port);
  const int result = system.call("getaddrinfo", [&] {
    return ::getaddrinfo(address.host.c_str(), port.c_str(), &wish, &found);
  });
  Resolved resolved;
  if (result != 0) {
    resolved.error = result == EAI_SYSTEM ? errno : 0;
    resolved.problem =
        fmt::format("the name {} gives no address: {}", address.host, ::gai_strerror(result));
    return resolved;
  }
  resolved.list.reset(found);
  return resolved;
}

tcp::Address address_of(const addrinfo& found) {
  tcp::Address address;
  std::memcpy(&address.storage, found.ai_addr, found.ai_addrlen);
  address.bytes = found.ai_addrlen;
  return address;
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
    throw Error{{.code = ErrorCode::bad_config,
                 .operation = "init",
                 .cause = fmt::format("{} is \"{}\": {}; allowed is host:port or [IPv6 "
                                      "address]:port with a port from 1 to 65535",
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

Key key_from_secret(std::string_view secret) {
  constexpr std::string_view use = "qpmesh bootstrap over TCP, version 1";
  Key key;
  crypto_generichash(reinterpret_cast<unsigned char*>(key.data()), key.size(),
                     reinterpret_cast<const unsigned char*>(secret.data()), secret.size(),
                     reinterpret_cast<const unsigned char*>(use.data()), use.size());
  return key;
}

base::UniqueFd TcpEndpoint::listen() {
  const Resolved resolved = resolve(root_, system_);
  if (!resolved.problem.empty())
    fail_listen(ErrorCode::bad_config, resolved.problem, resolved.error, "check QPMESH_ROOT");
  int last_error = 0;
  for (const addrinfo* found = resolved.list.get(); found != nullptr; found = found->ai_next) {
    tcp::Listening listening = tcp::listen_at(system_, address_of(*found));
    if (listening.socket) {
      root_.port = tcp::host_port(tcp::local_address(listening.socket.get())).port;
      return std::move(listening.socket);
    }
    last_error = listening.error;
    if (last_error == EADDRINUSE) {
      fail_listen(ErrorCode::bad_config, fmt::format("the port of {} is in use", describe()),
                  last_error,
                  "another job or service listens there; choose another port with QPMESH_ROOT");
    }
  }
  if (last_error == EADDRNOTAVAIL || last_error == EACCES) {
    fail_listen(ErrorCode::bad_config,
                fmt::format("rank 0 cannot listen on {}: {}", describe(),
                            last_error == EACCES ? "the port is not allowed"
                                                 : "this is no address of its host"),
                last_error, "QPMESH_ROOT must be an address of the host of rank 0");
  }
  fail_listen(ErrorCode::no_resource, fmt::format("rank 0 cannot listen on {}", describe()),
              last_error, "");
}

Endpoint::Attempt TcpEndpoint::connect(Deadline deadline) {
  const Resolved resolved = resolve(root_, system_);
  if (!resolved.problem.empty()) return {{}, resolved.error, resolved.problem};
  Attempt attempt{{}, 0, fmt::format("{} has no address", describe())};
  for (const addrinfo* found = resolved.list.get(); found != nullptr; found = found->ai_next) {
    attempt.problem = fmt::format("connect to {}", describe());
    tcp::Connecting connecting = tcp::connect_to(system_, address_of(*found));
    attempt.error = connecting.error;
    if (attempt.error != 0) continue;
    // Capped, so that an address that swallows packets does not use up the time of the next one.
    const Deadline until =
        std::min(deadline, system_.now() + std::chrono::milliseconds{attempt_timeout_ms_});
    attempt.error = stream::await(system_, connecting.socket.get(), POLLOUT, until);
    if (attempt.error == 0)
      attempt.error = tcp::finish_connecting(system_, connecting.socket.get());
    if (attempt.error != 0) continue;
    attempt.error = tcp::set_up(system_, connecting.socket.get());
    if (attempt.error != 0) {
      attempt.problem = "setting up the TCP connection";
      continue;
    }
    attempt.fd = std::move(connecting.socket);
    return attempt;
  }
  return attempt;
}

int TcpEndpoint::prepare(int fd) const { return tcp::set_up(system_, fd); }

std::string TcpEndpoint::local_address(int fd) const {
  const tcp::Address address = tcp::local_address(fd);
  return tcp::is_wildcard(address) ? std::string{} : tcp::host_port(address).host;
}

std::string TcpEndpoint::secret_hint() const {
  return fmt::format("this rank's secret comes from {}; every rank of a job needs the same one",
                     secret_source_);
}

}  // namespace qpmesh::bootstrap
