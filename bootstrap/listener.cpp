#include "bootstrap/listener.hpp"

#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>

#include "base/bytes.hpp"
#include "bootstrap/interfaces.hpp"
#include "qpmesh/error.hpp"

namespace qpmesh::bootstrap {
namespace {

// A host has a handful. Callers try all of them in turn.
constexpr std::size_t addresses_max = 16;
constexpr std::size_t unauthenticated_peers_max = 256;

Reach reach_of(std::span<const Introduction> everybody, const Introduction& mine) {
  Reach reach;
  for (const Introduction& other : everybody) {
    if (other.place == mine.place) continue;
    (same_network(other, mine) ? reach.same_network : reach.beyond) = true;
  }
  return reach;
}

}  // namespace

bool same_network(const Introduction& a, const Introduction& b) {
  return a.place.boot_id == b.place.boot_id && a.place.net_namespace == b.place.net_namespace;
}

Key key_of_listener(std::span<const Introduction> everybody, int rank) {
  constexpr std::string_view use = "qpmesh control link, version 1";
  base::ByteWriter writer;
  writer.put(std::int32_t{rank});
  for (const Introduction& each : everybody) {
    for (const std::byte byte : each.token) writer.put(byte);
    for (const std::byte byte : each.contribution) writer.put(byte);
  }
  const Blob& text = writer.blob();
  Key key;
  crypto_generichash(reinterpret_cast<unsigned char*>(key.data()), key.size(),
                     reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                     reinterpret_cast<const unsigned char*>(use.data()), use.size());
  return key;
}

Listener::Listener(const Settings& settings, std::span<const Introduction> everybody,
                   const base::System& system, const base::Log& log)
    : key_{key_of_listener(everybody, settings.rank)} {
  const Introduction& mine = everybody[static_cast<std::size_t>(settings.rank)];
  std::vector<std::string> hosts = addresses_for(
      reach_of(everybody, mine), settings.bootstrap_address, interface_addresses(system));
  if (hosts.size() > addresses_max) hosts.resize(addresses_max);
  const AcceptorSettings acceptor{
      .rank = settings.rank,
      .handshake_timeout_ms = settings.handshake_timeout_ms,
      .unauthenticated_peers_max = unauthenticated_peers_max + everybody.size()};
  std::string tried;
  int last_error = 0;
  for (const std::string& host : hosts) {
    try {
      bound_.emplace_back(host, key_, acceptor, system, log);
    } catch (const Error& error) {
      last_error = error.system_error();
      tried += fmt::format("{}{} ({})", tried.empty() ? "" : ", ", host,
                           base::describe_errno(last_error));
      log.info("cannot hear ranks of other hosts at {}: {}", host,
               base::describe_errno(last_error));
    }
  }
  if (!bound_.empty()) return;
  throw Error{
      {.code = ErrorCode::no_resource,
       .peer = settings.rank,
       .operation = "init",
       .cause =
           tried.empty()
               ? fmt::format("host {} has no address at which ranks of other hosts could reach "
                             "rank {}",
                             mine.host, settings.rank)
               : fmt::format("rank {} on host {} cannot listen at any of its addresses: {}",
                             settings.rank, mine.host, tried),
       .system_error = last_error,
       .hint = "is a network interface up, with an IPv4 or a global IPv6 address?"}};
}

std::vector<HostPort> Listener::addresses() const {
  std::vector<HostPort> all;
  for (const BoundAddress& bound : bound_) all.push_back(bound.endpoint.address());
  return all;
}

Deadline Listener::watch(std::vector<pollfd>& polled, Deadline wake) {
  for (BoundAddress& bound : bound_) {
    const std::size_t first = polled.size();
    wake = bound.acceptor.watch(polled, wake);
    bound.watched_entries = polled.size() - first;
  }
  return wake;
}

std::vector<AuthenticatedPeer> Listener::serve(std::span<const pollfd> entries) {
  std::vector<AuthenticatedPeer> callers;
  for (BoundAddress& bound : bound_) {
    for (AuthenticatedPeer& caller : bound.acceptor.serve(entries.first(bound.watched_entries)))
      callers.push_back(std::move(caller));
    entries = entries.subspan(bound.watched_entries);
  }
  return callers;
}

// Any acceptor will do: the peer has its socket with it.
void Listener::refuse(AuthenticatedPeer caller, const std::string& cause) {
  bound_.front().acceptor.refuse(std::move(caller), ErrorCode::mismatch, cause, "");
}

int Listener::accept_error() const noexcept {
  for (const BoundAddress& bound : bound_) {
    if (bound.acceptor.accept_error() != 0) return bound.acceptor.accept_error();
  }
  return 0;
}

}  // namespace qpmesh::bootstrap
