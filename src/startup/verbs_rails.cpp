// SPDX-License-Identifier: MIT
#include "startup/verbs_rails.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <tuple>

#include "base/bytes.hpp"
#include "base/errors.hpp"
#include "bootstrap/agreement.hpp"
#include "topology/cores.hpp"
#include "transport/verbs/device.hpp"

namespace qpmesh::startup {
namespace {

using namespace transport::verbs;
using namespace transport::verbs::selection;

std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

// offers: by rank, of ports that are free.
RailChoice choose_ports_of(std::vector<Offer> offers, const std::vector<int>& node_ids) {
  RailChoice rail;
  rail.offers = std::move(offers);
  rail.ports = choose_ports(rail.offers, node_ids);
  for (std::size_t rank = 0; rank < rail.ports.size(); ++rank) {
    rail.offers[rank] = restrict_to(rail.offers[rank], rail.ports[rank]);
    const auto first = std::ranges::find(rail.offers, rail.offers[rank]);
    rail.alike.push_back(static_cast<int>(first - rail.offers.begin()));
  }
  return rail;
}

bool has_iwarp(const Offer& offer) {
  return std::ranges::any_of(offer.endpoints, &Endpoint::is_iwarp);
}

// What a rank tells of its rails (VerbsRails::test).
struct Told {
  struct Rail {
    Notifications believed;
    Blob seen;
  };
  bool is_free = false;  // the options leave the choice
  std::array<Rail, 2> rails;
};

Told decode_told(BlobView bytes, int rank) {
  base::ByteReader in{bytes};
  Told told;
  in.get_fields(told.is_free);
  bool is_known = true;
  for (auto& [believed, seen] : told.rails) {
    in.get_fields(believed.small, believed.medium, seen);
    is_known &= std::max(believed.small, believed.medium) <= transport::Notification::immediate;
  }
  if (!in.finished() || !is_known) {
    base::throw_error({ErrorCode::corrupt, rank}, "init", "",
                      "{} bytes do not say what it relies on", bytes.size());
  }
  return told;
}

}  // namespace

const Pairs& RailChoice::pairs_between(int low, int high) const {
  const std::pair key{alike[at(low)], alike[at(high)]};
  const auto known = known_pairs.find(key);
  if (known != known_pairs.end()) return known->second;
  return known_pairs.emplace(key, pairs(offers[at(low)], offers[at(high)])).first->second;
}

bool RailChoice::joins(int peer) const { return std::ranges::find(peers, peer) != peers.end(); }

bool VerbsRails::choose(Bootstrap& bootstrap, Deadline deadline) {
  const auto blobs = bootstrap::agree(
      bootstrap, deadline, [&] { return encode(make_own_offer(bootstrap.local_address())); });
  std::vector<Offer> offers;
  std::vector<int> node_ids;
  for (int rank = 0; rank < size(); ++rank) {
    offers.push_back(decode(blobs[at(rank)], rank));
    node_ids.push_back(reach_.uses_network_on_node() ? rank : parts_.identities[at(rank)].node);
  }
  const int joined = choose_first(offers, node_ids);
  if (rails_max_ > 1) choose_second(std::move(offers), node_ids);
  return joined > 0;
}

Offer VerbsRails::make_own_offer(const std::string& bootstrap_address) {
  devices_ = discover(*parts_.system);
  Wishes wishes = wishes_of(parts_.options, bootstrap_address);
  wishes.ibverbs_missing = ibverbs_missing();
  if (devices_.empty()) wishes.descriptors_error = base::descriptors_error();
  if (!wishes.ibverbs_missing.empty())
    parts_.log.info("no RDMA: libibverbs cannot be used: {}", wishes.ibverbs_missing);
  const bool placed = std::ranges::any_of(
      devices_, [](const DeviceFacts& device) { return device.numa_node >= 0; });
  if (placed) {
    if (!topology::hwloc_missing().empty()) {
      parts_.log.info("no hwloc, so no device is preferred for being near: {}",
                      topology::hwloc_missing());
    }
    wishes.numa_node =
        topology::numa_node_of(topology::usable_cores().cores, topology::numa_nodes());
  }
  require_port_values(devices_, wishes);
  return make_offer(devices_, wishes, host(parts_.rank));
}

int VerbsRails::choose_first(const std::vector<Offer>& all, const std::vector<int>& node_ids) {
  RailChoice& rail = chosen_.front();
  rail = choose_ports_of(all, node_ids);
  std::string why_none;
  int joined = 0;
  bool warned = false;
  for (int low = 0; low < size(); ++low) {
    for (int high = low + 1; high < size(); ++high) {
      if (!reach_.by_network(low, high)) continue;
      const Pairs& found = rail.pairs_between(low, high);
      if (!found.pairs.empty()) {
        ++joined;
        continue;
      }
      const std::string why =
          fmt::format("rank {} (on {}) and rank {} (on {}) cannot be joined by verbs: {}", low,
                      host(low), high, host(high), found.why_none.cause);
      // For who reads one of these alone: Reach::describe says it once for all its reasons.
      const std::string why_no_memory =
          parts_.options.transport == TransportChoice::verbs
              ? ""
              : apart(parts_.identities[at(low)].place, parts_.identities[at(high)].place);
      if (!reach_.pairs_may_fall_back()) {
        base::throw_error(
            {ErrorCode::no_resource, rail.offers[at(low)].endpoints.empty() ? low : high}, "init",
            found.why_none.hint, "{}{}", why, why_no_memory);
      }
      // Who has no device expects none. Of a pair one rank says it.
      const bool surprising = !devices_.empty() || !rail.offers[at(high)].endpoints.empty();
      if (parts_.rank == low && surprising && !std::exchange(warned, true))
        parts_.log.warning("{}{}; tcp is used instead ({})", why, why_no_memory,
                           found.why_none.hint);
      if (why_none.empty()) why_none = why;
      reach_.pair_falls_back(low, high, why);
    }
  }
  if (joined == 0) reach_.fall_back(why_none);
  for (int peer = 0; peer < size(); ++peer) {
    if (reach_.way(parts_.rank, peer) == Way::verbs) rail.peers.push_back(peer);
  }
  return joined;
}

// As the first, of the ports that it has left.
void VerbsRails::choose_second(std::vector<Offer> all, const std::vector<int>& node_ids) {
  for (int rank = 0; rank < size(); ++rank) {
    Offer& offer = all[at(rank)];
    const bool is_iwarp = has_iwarp(first().offers[at(rank)]);
    offer = without(offer, first().ports[at(rank)]);
    // Who takes over what a rail has lost must know what the peer has acknowledged.
    const auto erased = std::erase_if(
        offer.endpoints, [&](const Endpoint& endpoint) { return is_iwarp || endpoint.is_iwarp(); });
    if (erased > 0 && offer.endpoints.empty())
      offer.why_none = {.cause = "iWARP does not say what a peer has received"};
  }
  RailChoice& rail = chosen_.back();
  rail = choose_ports_of(std::move(all), node_ids);
  for (int low = 0; low < size(); ++low) {
    for (int high = low + 1; high < size(); ++high) {
      if (reach_.way(low, high) != Way::verbs) continue;
      const Pairs& found = rail.pairs_between(low, high);
      has_second_ |= !found.pairs.empty();
      if (low != parts_.rank && high != parts_.rank) continue;
      const int peer = low == parts_.rank ? high : low;
      if (!found.pairs.empty()) rail.peers.push_back(peer);
      else parts_.log.info("peer {}: no second rail: {}", peer, found.why_none.cause);
    }
  }
}

const PortChoice& VerbsRails::port_of(const RailChoice& rail) const {
  return rail.ports[at(parts_.rank)];
}

const Endpoint& VerbsRails::endpoint_of(const RailChoice& rail) const {
  return rail.offers[at(parts_.rank)].endpoints.front();
}

const DeviceFacts& VerbsRails::device_of(const RailChoice& rail) const {
  return *std::ranges::find(devices_, port_of(rail).device, &DeviceFacts::name);
}

PeerPaths VerbsRails::paths_to(int peer, const RailChoice& rail,
                               const Notifications& theirs) const {
  const int rank = parts_.rank;
  const Offer& low = rail.offers[at(std::min(rank, peer))];
  const Offer& high = rail.offers[at(std::max(rank, peer))];
  PeerPaths paths{.peer_host = host(peer), .theirs = theirs, .choices = {}};
  for (const Pair& pair : rail.pairs_between(std::min(rank, peer), std::max(rank, peer)).pairs) {
    const Endpoint& of_low = low.endpoints[pair.low];
    const Endpoint& of_high = high.endpoints[pair.high];
    paths.choices.push_back(rank < peer ? Path{of_low, of_high} : Path{of_high, of_low});
  }
  return paths;
}

// Of the ranks that use the device the lowest, and of its rails the first.
VerbsRails::Tester VerbsRails::tester_of(const RailChoice& rail, int user) const {
  const auto device_of = [&](int rank, const RailChoice& of) {
    const base::Place& place = parts_.identities[at(rank)].place;
    return std::tie(place.boot_id, place.net_namespace, of.ports[at(rank)].device);
  };
  for (int rank = 0;; ++rank) {
    for (std::size_t i = 0; i < chosen_.size(); ++i) {
      if (chosen_[i].ports.empty() || device_of(rank, chosen_[i]) != device_of(user, rail))
        continue;
      if (is_used(chosen_[i], rank)) return {.rank = rank, .rail = i};
    }
  }
}

// By some pair of that rank.
bool VerbsRails::is_used(const RailChoice& rail, int rank) const {
  for (int peer = 0; peer < size(); ++peer) {
    if (reach_.way(rank, peer) != Way::verbs) continue;
    if (&rail == &first()) return true;
    if (!rail.pairs_between(std::min(rank, peer), std::max(rank, peer)).pairs.empty()) return true;
  }
  return false;
}

// Before anything was seen.
Notifications VerbsRails::believed(const RailChoice& rail) const {
  using transport::Notification;
  switch (parts_.options.notification) {
    case NotificationChoice::automatic: break;
    case NotificationChoice::poll: return {Notification::poll, Notification::poll, "forced"};
    case NotificationChoice::immediate:
      return {Notification::immediate, Notification::immediate, "forced"};
    case NotificationChoice::mixed: return {Notification::poll, Notification::immediate, "forced"};
  }
  return default_notifications(device_of(rail), endpoint_of(rail).link_layer);
}

// Of both rails what this rank believes, and what it saw: nothing of those that others test.
Blob VerbsRails::test() const {
  base::ByteWriter out;
  out.put_fields(parts_.options.notification == NotificationChoice::automatic);
  for (const RailChoice& rail : chosen_) {
    const Notifications own = rail.peers.empty() ? Notifications{} : believed(rail);
    out.put_fields(own.small, own.medium, test(rail));
  }
  return std::move(out).blob();
}

Blob VerbsRails::test(const RailChoice& rail) const {
  if (rail.peers.empty()) return {};
  const Tester tester = tester_of(rail, parts_.rank);
  if (tester.rank != parts_.rank || &chosen_[tester.rail] != &rail) return {};
  // A device of iWARP has no loop that it could be tried in without the manager.
  if (endpoint_of(rail).is_iwarp()) return encode(Placement{});
  const Placement seen = test_placement(*parts_.system, endpoint_of(rail));
  parts_.log.info(
      "self-test of {}: {} records, {} seen in part, {} out of order, {} overtook their "
      "payload; polled {} ns, immediate {} ns{}{}",
      port_of(rail).device, seen.records, seen.partial, seen.out_of_order, seen.overtaken,
      seen.polled_ns, seen.immediate_ns, seen.failure.empty() ? "" : "; ", seen.failure);
  return encode(seen);
}

Notifications VerbsRails::relied_on(int rank, const std::vector<Blob>& tests) const {
  const Told own = decode_told(tests[at(rank)], rank);
  std::optional<Notifications> together;
  for (std::size_t i = 0; i < chosen_.size(); ++i) {
    if (chosen_[i].ports.empty() || !is_used(chosen_[i], rank)) continue;
    const Tester tester = tester_of(chosen_[i], rank);
    const Told testers = decode_told(tests[at(tester.rank)], tester.rank);
    const Placement seen = decode_placement(testers.rails[tester.rail].seen, tester.rank);
    Notifications judged = judge_placement(own.rails[i].believed, seen);
    if (own.is_free) judged = prefer_sooner(judged, seen);
    together = together ? less_of(*together, judged) : judged;
  }
  return *together;
}

const std::string& VerbsRails::host(int rank) const { return parts_.identities[at(rank)].host; }

}  // namespace qpmesh::startup
