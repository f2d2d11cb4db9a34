// SPDX-License-Identifier: MIT
#include "bootstrap/meeting.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "base/bytes.hpp"
#include "base/errors.hpp"
#include "bootstrap/agreement.hpp"
#include "bootstrap/control_channel.hpp"
#include "bootstrap/init_error.hpp"
#include "bootstrap/introduction.hpp"
#include "bootstrap/links.hpp"
#include "bootstrap/listener.hpp"
#include "bootstrap/socket.hpp"
#include "qpmesh/error.hpp"

namespace qpmesh::bootstrap {
namespace {

// A bootstrap carries 64 KiB: the rest of the introduction fits beside them.
constexpr std::size_t facts_bytes_max = 60 * 1024;

base::UniqueFd make_ready(const base::System& system, const Brought& brought, Introduction& mine) {
  const auto& [offer, facts] = brought;
  if (facts.size() > facts_bytes_max) {
    fail_init(ErrorCode::bad_argument, no_peer,
              fmt::format("{} bytes of facts, {} are allowed", facts.size(), facts_bytes_max),
              "facts are what init tells of itself: start fewer ranks, or report it");
  }
  mine.facts = facts;
  mine.nonce = offer.nonce;
  mine.arena_bytes = offer.arena_bytes;
  mine.private_nonce_address = offer.private_nonce_address;
  look_around(system, mine);
  const std::string name = random_unix_name(system);
  Opened listening = listen_at(system, unix_address(name));
  if (!listening.socket) {
    fail_init(ErrorCode::no_resource, no_peer,
              fmt::format("listening at the Unix socket @{} failed", name),
              base::hint_for_descriptors(listening.error), listening.error);
  }
  mine.listener = name;  // last: a name in the blob promises that somebody listens
  return std::move(listening.socket);
}

// Ranks that a bootstrap mixed up would accuse each other of forgery.
void check_own_blob(const Introduction& sent, const Introduction& returned) {
  if (sent.token == returned.token) return;
  fail_corrupt_blob(
      sent.rank,
      fmt::format("all_gather returned a blob for rank {} that this rank did not send", sent.rank));
}

// What a rank reports of its links.
Blob neighbours_of(std::span<const Link> links) {
  Neighbours neighbours{.are_read = true};
  for (const Link& link : links) {
    if (link.memory.rank == no_peer) continue;
    neighbours.proved.push_back(link.memory.rank);
    neighbours.are_read &= link.memory.private_memory.is_known();
  }
  neighbours.are_read &= !neighbours.proved.empty();
  return encode(neighbours);
}

}  // namespace

void check_place(int rank, int size) {
  if (rank >= 0 && rank < size) return;
  fail_init(ErrorCode::bad_config, no_peer,
            fmt::format("the bootstrap says rank {} of {}", rank, size),
            "a rank is at least 0 and less than the number of ranks");
}

Blob encode(const Neighbours& neighbours) {
  base::ByteWriter writer;
  writer.put_fields(neighbours.are_read, neighbours.proved);
  return std::move(writer).blob();
}

std::vector<Neighbours> read_neighbours(std::span<const Blob> blobs) {
  const int size = static_cast<int>(blobs.size());
  std::vector<Neighbours> all;
  for (int rank = 0; rank < size; ++rank) {
    base::ByteReader reader{blobs[static_cast<std::size_t>(rank)]};
    Neighbours& its = all.emplace_back();
    const std::vector<int>& proved = its.proved;
    reader.get_fields(its.are_read, its.proved);
    const bool ascending = std::ranges::adjacent_find(proved, std::greater_equal{}) == proved.end();
    const bool others = proved.empty() || (proved.front() >= 0 && proved.back() < size &&
                                           !std::ranges::binary_search(proved, rank));
    if (reader.finished() && ascending && others) continue;
    fail_corrupt_blob(rank, fmt::format("rank {} does not say with whom it shares memory", rank));
  }
  return all;
}

std::vector<int> number_nodes(std::span<const Neighbours> neighbours) {
  const auto proved = [&](int rank, int peer) {
    return std::ranges::binary_search(neighbours[static_cast<std::size_t>(rank)].proved, peer);
  };
  std::vector<int> node_of;
  int nodes = 0;
  for (int rank = 0; rank < static_cast<int>(neighbours.size()); ++rank) {
    const std::vector<int>& mine = neighbours[static_cast<std::size_t>(rank)].proved;
    const int lowest = mine.empty() ? rank : std::min(rank, mine.front());
    node_of.push_back(lowest == rank ? nodes++ : node_of[static_cast<std::size_t>(lowest)]);
    for (int other = 0; other < rank; ++other) {
      const bool same_node = node_of[static_cast<std::size_t>(other)] == node_of.back();
      if (same_node == proved(rank, other) && same_node == proved(other, rank)) continue;
      fail_init(ErrorCode::mismatch, rank,
                fmt::format("ranks {} and {} disagree on whether they share memory", other, rank),
                "QPMESH_LOG=info says what each rank saw of its neighbours");
    }
  }
  return node_of;
}

// Two gathers where all ranks are in one place, three where they are not, on every path: a rank
// that failed takes part in the next one all the same, or the others would wait for it.
Meeting meet(Bootstrap& bootstrap, const Options& options, const base::System& system,
             const base::Log& log, const std::function<Brought()>& prepare, Deadline deadline) {
  const int rank = bootstrap.rank();
  const int size = bootstrap.size();
  check_place(rank, size);

  Report report;
  std::vector<base::UniqueFd> listeners;
  Introduction mine = introduce_myself(system, rank, size);
  const base::KeyPair key_pair = base::make_key_pair(system);
  mine.public_key = key_pair.public_key;
  Brought brought;
  report.attempt(rank, [&] {
    brought = prepare();
    listeners.push_back(make_ready(system, brought, mine));
  });
  const auto introductions = bootstrap.all_gather(encode(mine), deadline);

  std::vector<Introduction> everybody;
  try {
    everybody = read_introductions(introductions, size);
  } catch (const Error&) {
    // Which every rank reads alike; a rank of another protocol could not read our report of it.
    bootstrap.all_gather({}, deadline);
    throw;
  }
  report.attempt(rank, [&] { check_own_blob(mine, everybody[static_cast<std::size_t>(rank)]); });

  // A rank that could not prepare itself is not waited for: its report ends the meeting.
  const bool all_prepared =
      std::ranges::none_of(everybody, &std::string::empty, &Introduction::listener);
  const bool several_places = !std::ranges::all_of(
      everybody, [&](const Introduction& each) { return same_place(each, everybody.front()); });
  std::vector<std::vector<HostPort>> addresses(everybody.size());
  if (all_prepared && several_places) {
    report.attempt(rank, [&] {
      std::vector<HostPort> heard_at;
      const bool any_network = options.netdev.empty() && options.subnet.empty();
      for (base::UniqueFd& listener :
           listen_beyond(everybody, rank, bootstrap.local_address(), any_network,
                         parse_port_range(options.ports), system, log)) {
        heard_at.push_back(host_port(local_address(listener.get())));
        listeners.push_back(std::move(listener));
      }
      report.result = encode_addresses(heard_at);
    });
    const auto told = agree(bootstrap, deadline, report);
    for (std::size_t i = 0; i < told.size(); ++i)
      addresses[i] = read_addresses(told[i], static_cast<int>(i));
  }

  Meeting meeting;
  std::vector<Link> links;
  if (all_prepared && !report.failure) {
    report.attempt(rank, [&] {
      links = link_peers({.rank = rank,
                          .offer = brought.offer,
                          .handshake_timeout_ms = options.handshake_timeout_ms,
                          .silence_ms_max = options.link_timeout_ms,
                          .key_pair = options.encrypt ? &key_pair : nullptr,
                          .deadline = leaving_time_to_agree(system, deadline),
                          .check = [&] { bootstrap.check_ranks(); }},
                         std::move(listeners), everybody, addresses, report, system, log);
      report.result = neighbours_of(links);
      if (report.failure) return;
      std::vector<ControlLink> control;
      control.reserve(links.size());
      for (Link& link : links) control.push_back(std::move(link.control));
      meeting.control = std::make_unique<SocketControlChannel>(system, std::move(control));
    });
  }
  listeners.clear();
  const auto neighbours = read_neighbours(agree(bootstrap, deadline, report));
  const std::vector<int> node_of = number_nodes(neighbours);

  for (Introduction& each : everybody) {
    const auto index = static_cast<std::size_t>(each.rank);
    meeting.ranks.push_back({.host = std::move(each.host),
                             .pid = each.pid,
                             .place = std::move(each.place),
                             .node = node_of[index],
                             .reads_neighbours = neighbours[index].are_read,
                             .facts = std::move(each.facts)});
  }
  for (Link& link : links) {
    if (link.memory.rank != no_peer) meeting.local_peers.push_back(std::move(link.memory));
  }
  meeting.epoch = epoch_of(everybody);
  log.info("met {} ranks on {} nodes, {} of them here; epoch {:016x}", size,
           1 + std::ranges::max(node_of), meeting.local_peers.size() + 1, meeting.epoch);
  return meeting;
}

}  // namespace qpmesh::bootstrap
