// SPDX-License-Identifier: MIT
#include "bootstrap/endpoint.hpp"

#include <fmt/format.h>
#include <limits.h>
#include <netdb.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "base/errors.hpp"
#include "bootstrap/init_error.hpp"
#include "bootstrap/launcher.hpp"

namespace qpmesh::bootstrap {
namespace {

constexpr int looks_max = 20;  // a millisecond apart, at a name that is bound

// Who has bound the name and does not listen is not one of us: our roots listen at once.
bool taken_by_another_user(const base::System& system, const std::string& name) {
  for (int looks = 0; looks < looks_max; ++looks) {
    const Opened there = connect_to(system, unix_address(name));
    if (there.error == 0) return !reject_reason(system, there.socket.get()).empty();
    ::poll(nullptr, 0, 1);
  }
  return true;
}

base::UniqueFd listen_on_host(std::string name, const PrivateName& private_name,
                              const base::System& system) {
  Opened listening = listen_at(system, unix_address(name));
  if (listening.error == EADDRINUSE && taken_by_another_user(system, name)) {
    const std::string taken = std::exchange(name, private_name(true));
    if (name.empty()) {
      fail_init(ErrorCode::bad_config, 0,
                fmt::format("another user has taken the socket name @{}", taken),
                "set QPMESH_SECRET_FILE on every rank, for a name that others cannot know",
                EADDRINUSE);
    }
    listening = listen_at(system, unix_address(name));
  }
  if (listening.socket) return std::move(listening.socket);
  const bool in_use = listening.error == EADDRINUSE;
  fail_init(in_use ? ErrorCode::bad_config : ErrorCode::no_resource, 0,
            in_use ? fmt::format("the socket name @{} is in use: another living job, or a "
                                 "second rank 0 of this one",
                                 name)
                   : fmt::format("rank 0 cannot listen at @{}", name),
            in_use ? "end the other job, or give each job a QPMESH_JOB of its own"
                   : base::hint_for_descriptors(listening.error),
            listening.error);
}

// Blocks for a name as long as the resolver does: getaddrinfo knows no deadline.
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
    const int error = result == EAI_SYSTEM ? errno : 0;
    return {.addresses = {},
            .problem = fmt::format("the name {} gives no address: {}", address.host,
                                   ::gai_strerror(result)),
            .error = error};
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

std::string own_host_name() {
  std::array<char, HOST_NAME_MAX + 1> text{};
  return ::gethostname(text.data(), text.size() - 1) == 0 ? text.data() : "";
}

bool is_loopback(const Resolved& resolved) {
  return !resolved.addresses.empty() &&
         std::ranges::all_of(resolved.addresses,
                             [](const Address& each) { return scope_of(each) == Scope::loopback; });
}

// Whether a host's own name stands for loopback there, as Debian's /etc/hosts has it (127.0.1.1):
// others, to whom the name gives an address, would find nobody at it.
bool hides_behind_loopback(const HostPort& root, const Resolved& resolved) {
  const std::string own = own_host_name();
  const std::string& name = root.host;
  const bool is_own = name == own || name.substr(0, name.find('.')) == own.substr(0, own.find('.'));
  return !own.empty() && is_own && name != "localhost" && !numeric(root) && is_loopback(resolved);
}

// Loopback is right for ranks of one host, and leads everybody else to themselves.
std::string tcp_terms(const HostPort& root, bool leads_to_loopback) {
  std::string terms = "have the same QPMESH_ROOT, be of one job (QPMESH_JOB) and know its secret";
  if (leads_to_loopback) {
    terms += fmt::format("; ranks of several hosts do not meet at loopback, as {} is on host {}",
                         root.host, own_host_name());
  }
  return terms;
}

// Binds the root's address and nothing else; a wildcard only when the address is one, or is
// loopback under a name that is another address to others.
base::UniqueFd listen_at_root(const HostPort& root, Resolved resolved, const base::System& system) {
  if (resolved.addresses.empty())
    fail_init(ErrorCode::bad_config, 0, resolved.problem, "check QPMESH_ROOT", resolved.error);
  if (hides_behind_loopback(root, resolved)) {
    const bool four = std::ranges::any_of(
        resolved.addresses, [](int family) { return family == AF_INET; }, &Address::family);
    resolved.addresses = {*numeric({four ? "0.0.0.0" : "::", root.port})};
  }
  int last_error = 0;
  for (const Address& address : resolved.addresses) {
    Opened listening = listen_at(system, address);
    if (listening.socket) return std::move(listening.socket);
    last_error = listening.error;
    if (last_error == EADDRINUSE) break;
  }
  const std::string name = to_string(root);
  if (last_error == EADDRINUSE) {
    fail_init(ErrorCode::bad_config, 0, fmt::format("the port of {} is in use", name),
              "another job or service listens there; choose another port with QPMESH_ROOT",
              last_error);
  }
  std::string cause = fmt::format("rank 0 cannot listen on {}", name);
  if (last_error != EADDRNOTAVAIL && last_error != EACCES)
    fail_init(ErrorCode::no_resource, 0, std::move(cause), {}, last_error);
  cause += last_error == EACCES ? ": the port is not allowed" : ": this is no address of its host";
  fail_init(ErrorCode::bad_config, 0, std::move(cause),
            "QPMESH_ROOT must be an address of the host of rank 0", last_error);
}

}  // namespace

bool is_plain_name(std::string_view job) {
  constexpr std::size_t characters_max = 64;  // what fits sun_path with everything around it
  constexpr std::string_view characters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:@-";
  return job.size() <= characters_max && job.find_first_not_of(characters) == job.npos;
}

std::string one_host_name(uid_t uid, const std::string& job, int ordinal) {
  return fmt::format("qpmesh-{}-{}-{}", uid,
                     is_plain_name(job) ? job : "hash:" + hexadecimal(hash<16>(job)), ordinal);
}

std::string private_name(std::string_view secret, const std::string& name) {
  const auto key = hash<32>(secret);
  return "qpmesh-private-" +
         hexadecimal(hash<16>(name, {reinterpret_cast<const char*>(key.data()), key.size()}));
}

Endpoint one_host_endpoint(const std::string& name, const PrivateName& private_name,
                           const base::System& system) {
  return {.name = "@" + name,
          .secret_hint = {},
          .terms =
              [] {
                return fmt::format(
                    "run on one host, as one user (here uid {}), in one job (QPMESH_JOB)",
                    ::geteuid());
              },
          .key = {},  // known to all: proofs only catch confusion here, SO_PEERCRED authenticates
          .listen = [=, &system] { return listen_on_host(name, private_name, system); },
          .resolve =
              [=](bool taken) {
                Resolved found{.addresses = {unix_address(name)}, .problem = {}};
                if (const std::string other = private_name(taken); !other.empty())
                  found.addresses.push_back(unix_address(other));
                return found;
              }};
}

HostPort parse_host_port(std::string_view text, std::string_view variable) {
  const auto refuse = [&](std::string_view why) {
    fail_init(ErrorCode::bad_config, no_peer,
              fmt::format("{} is \"{}\": {}; allowed is host:port or [IPv6 "
                          "address]:port with a port from 1 to 65535",
                          variable, text, why),
              "for example node1:4000, an address of rank 0's host");
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
  const auto port = parse_number(digits);
  if (!port || *port > 65535) refuse("the port is not a number in range");
  if (*port == 0) refuse("the port is 0");
  return {std::string{host}, static_cast<std::uint16_t>(*port)};
}

Key key_from_secret(std::string_view secret) {
  return hash<sizeof(Key)>(secret, "qpmesh bootstrap over TCP, version 1");
}

Endpoint tcp_endpoint(const HostPort& root, std::string_view secret, std::string_view secret_source,
                      const base::System& system) {
  const auto leads_to_loopback = std::make_shared<bool>(false);  // by the last look-up
  const auto look_up = [=, &system] {
    Resolved resolved = resolve(root, system);
    *leads_to_loopback = is_loopback(resolved) && !hides_behind_loopback(root, resolved);
    return resolved;
  };
  return {.name = to_string(root),
          .secret_hint = fmt::format("this rank's secret comes from {}; every rank of a job needs "
                                     "the same one",
                                     secret_source),
          .terms = [=] { return tcp_terms(root, *leads_to_loopback); },
          .key = key_from_secret(secret),
          .listen = [=, &system] { return listen_at_root(root, look_up(), system); },
          .resolve = [=](bool) { return look_up(); }};
}

}  // namespace qpmesh::bootstrap
