#include "bootstrap/reception.hpp"

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
constexpr std::size_t strangers_max = 256;

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

Reception::Reception(const Settings& settings, std::span<const Introduction> everybody,
                     const base::System& system, const base::Log& log)
    : key_{key_of_listener(everybody, settings.rank)} {
  const Introduction& mine = everybody[static_cast<std::size_t>(settings.rank)];
  std::vector<std::string> hosts =
      addresses_for(reach_of(everybody, mine), settings.bootstrap_address, interface_addresses(system));
  if (hosts.size() > addresses_max) hosts.resize(addresses_max);
  const GateSettings gate{.rank = settings.rank,
                          .handshake_timeout_ms = settings.handshake_timeout_ms,
                          .candidates_max = strangers_max + everybody.size()};
  std::string tried;
  int last_error = 0;
  for (const std::string& host : hosts) {
    try {
      desks_.emplace_back(host, key_, gate, system, log);
    } catch (const Error& error) {
      last_error = error.system_error();
      tried += fmt::format("{}{} ({})", tried.empty() ? "" : ", ", host, base::describe_errno(last_error));
      log.info("cannot hear ranks of other hosts at {}: {}", host, base::describe_errno(last_error));
    }
  }
  if (!desks_.empty()) return;
  throw Error{{.code = ErrorCode::no_resource,
               .peer = settings.rank,
               .operation = "init",
               .cause = tried.empty()
                            ? fmt::format("host {} has no address at which ranks of other hosts could reach "
                                          "rank {}",
                                          mine.host, settings.rank)
                            : fmt::format("rank {} on host {} cannot listen at any of its addresses: {}",
                                          settings.rank, mine.host, tried),
               .system_error = last_error,
               .hint = "is a network interface up, with an IPv4 or a global IPv6 address?"}};
}

std::vector<HostPort> Reception::addresses() const {
  std::vector<HostPort> all;
  for (const Desk& desk : desks_) all.push_back(desk.doorway.address());
  return all;
}

Deadline Reception::watch(std::vector<pollfd>& polled, Deadline wake) {
  for (Desk& desk : desks_) {
    const std::size_t first = polled.size();
    wake = desk.gate.watch(polled, wake);
    desk.watched_entries = polled.size() - first;
  }
  return wake;
}

std::vector<Gate::Guest> Reception::serve(std::span<const pollfd> entries) {
  std::vector<Gate::Guest> guests;
  for (Desk& desk : desks_) {
    for (Gate::Guest& guest : desk.gate.serve(entries.first(desk.watched_entries)))
      guests.push_back(std::move(guest));
    entries = entries.subspan(desk.watched_entries);
  }
  return guests;
}

// Any gate will do: the guest has its socket with it.
void Reception::refuse(Gate::Guest guest, const std::string& cause) {
  desks_.front().gate.refuse(std::move(guest), ErrorCode::mismatch, cause, "");
}

int Reception::deafness() const noexcept {
  for (const Desk& desk : desks_) {
    if (desk.gate.accept_error() != 0) return desk.gate.accept_error();
  }
  return 0;
}

}  // namespace qpmesh::bootstrap
