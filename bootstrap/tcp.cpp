#include "bootstrap/tcp.hpp"

#include <fmt/format.h>
#include <netdb.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include "bootstrap/hash.hpp"
#include "qpmesh/error.hpp"

namespace qpmesh::bootstrap {
namespace {

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
  if (result != 0) {
    return {.addresses = {},
            .problem = fmt::format("the name {} gives no address: {}", address.host,
                                   ::gai_strerror(result)),
            .error = result == EAI_SYSTEM ? errno : 0};
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list{found, &::freeaddrinfo};
  Resolved resolved;
  for (const addrinfo* each = list.get(); each != nullptr; each = each->ai_next) {
    Address& one = resolved.addresses.emplace_back();
    std::memcpy(&one.storage, each->ai_addr, each->ai_addrlen);
    one.bytes = each->ai_addrlen;
  }
  return resolved;
}

[[noreturn]] void fail_listen(ErrorCode code, std::string cause, int error, std::string hint) {
  throw Error{{.code = code,
               .peer = 0,
               .operation = "init",
               .cause = std::move(cause),
               .system_error = error,
               .hint = std::move(hint)}};
}

// Binds the root's address and nothing else; a wildcard only when the address is one.
base::UniqueFd listen_at_root(const HostPort& root, const base::System& system) {
  const Resolved resolved = resolve(root, system);
  if (resolved.addresses.empty())
    fail_listen(ErrorCode::bad_config, resolved.problem, resolved.error, "check QPMESH_ROOT");
  int last_error = 0;
  for (const Address& address : resolved.addresses) {
    Opened listening = listen_at(system, address);
    if (listening.socket) return std::move(listening.socket);
    last_error = listening.error;
    if (last_error == EADDRINUSE) break;
  }
  const std::string name = to_string(root);
  switch (last_error) {
    case EADDRINUSE:
      fail_listen(ErrorCode::bad_config, fmt::format("the port of {} is in use", name), last_error,
                  "another job or service listens there; choose another port with QPMESH_ROOT");
    case EADDRNOTAVAIL:
    case EACCES:
      fail_listen(ErrorCode::bad_config,
                  fmt::format("rank 0 cannot listen on {}: {}", name,
                              last_error == EACCES ? "the port is not allowed"
                                                   : "this is no address of its host"),
                  last_error, "QPMESH_ROOT must be an address of the host of rank 0");
    default:
      fail_listen(ErrorCode::no_resource, fmt::format("rank 0 cannot listen on {}", name),
                  last_error, "");
  }
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
  return hash<sizeof(Key)>(secret, "qpmesh bootstrap over TCP, version 1");
}

Endpoint tcp_endpoint(const HostPort& root, std::string_view secret, std::string_view secret_source,
                      const base::System& system) {
  return {.name = to_string(root),
          .terms = "have the same QPMESH_ROOT, be of one job (QPMESH_JOB) and know its secret",
          .secret_hint = fmt::format("this rank's secret comes from {}; every rank of a job needs "
                                     "the same one",
                                     secret_source),
          .key = key_from_secret(secret),
          .listen = [root, &system] { return listen_at_root(root, system); },
          .resolve = [root, &system](bool) { return resolve(root, system); }};
}

}  // namespace qpmesh::bootstrap
