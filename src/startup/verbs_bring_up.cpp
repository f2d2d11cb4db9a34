#include "startup/verbs_bring_up.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "base/bytes.hpp"
#include "base/errors.hpp"
#include "bootstrap/agreement.hpp"
#include "messaging/rings/layout.hpp"
#include "startup/exchange_on_demand.hpp"
#include "startup/network_rings.hpp"
#include "topology/cores.hpp"
#include "transport/rails.hpp"
#ifdef QPMESH_WITH_VERBS
#include "startup/verbs_ends.hpp"
#include "transport/verbs/connection.hpp"
#include "transport/verbs/device.hpp"
#include "transport/verbs/selection/choice.hpp"
#include "transport/verbs/selection/pairing.hpp"
#include "transport/verbs/selection/rules.hpp"
#include "transport/verbs/self_test.hpp"
#include "transport/verbs/transport.hpp"
#endif

namespace qpmesh::startup {

#ifndef QPMESH_WITH_VERBS

NetworkLinks link_verbs(Bootstrap&, Reach&, const context::ContextParts&, Deadline) { return {}; }

#else

namespace {

using namespace transport::verbs;
using namespace transport::verbs::diagnosis;
using namespace transport::verbs::selection;

// Each takes at most 70 bytes of a blob's 64 KiB.
constexpr std::int64_t addresses_per_blob_max = 512;

// Told from other uses of the epoch.
constexpr std::uint64_t connection_requests = 0x6d63'6873'656d'7071U;

std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

// What a rank tells all others where pairs are connected as they are first used.
struct EndFacts {
  Notifications relied_on;
  transport::RemoteAddress rings;  // of the first of its peers
};

Blob encode(const EndFacts& facts) {
  base::ByteWriter out;
  out.put_fields(facts.relied_on.small, facts.relied_on.medium, facts.relied_on.bytes_in_order,
                 facts.rings.region, facts.rings.offset, facts.rings.second_region);
  return std::move(out).blob();
}

EndFacts decode_end_facts(BlobView bytes, int peer) {
  base::ByteReader in{bytes};
  EndFacts facts;
  in.get_fields(facts.relied_on.small, facts.relied_on.medium, facts.relied_on.bytes_in_order,
                facts.rings.region, facts.rings.offset, facts.rings.second_region);
  if (in.finished() &&
      std::max(facts.relied_on.small, facts.relied_on.medium) <= transport::Notification::immediate)
    return facts;
  base::throw_error({ErrorCode::corrupt, peer}, "init", "",
                    "{} bytes do not say where its rings are", bytes.size());
}

class Linking {
 public:
  // rails: how many devices or ports of a host may be used.
  Linking(Bootstrap& bootstrap, Reach& reach, const context::ContextParts& parts, Deadline deadline,
          int rails)
      : bootstrap_{bootstrap},
        reach_{reach},
        parts_{parts},
        deadline_{deadline},
        rails_max_{rails} {}

  // Of a bring-up that failed: nothing is left behind.
  ~Linking() {
    result_.links.clear();
    for (Rail& rail : rails_) rail.connections.clear();
    result_.transport.reset();
    if (!memory_.empty())
      parts_.arena->free(parts_.arena->offset_of(memory_.data()), memory_.size());
  }
  Linking(const Linking&) = delete;
  Linking& operator=(const Linking&) = delete;

  // Whether a second rail joins some pair of the job: the same on every rank.
  bool has_second_rail() const { return has_second_rail_; }

  // Every step is taken by all ranks, also by those that need no link.
  NetworkLinks run() {
    exchange_offers();
    if (!choose()) return {};
    judge(bootstrap::agree(bootstrap_, deadline_, [&] {
      open();
      return test();
    }));
    if (connects_later()) {
      connect_later(bootstrap::agree(bootstrap_, deadline_, [&] { return end_facts(); }));
      join_rails();
      memory_ = {};
      return std::move(result_);
    }
    const std::vector<Blob> addresses = gather_addresses();
    bootstrap::agree(bootstrap_, deadline_, [&] { return connect(addresses), Blob{}; });
    if (asks_manager()) bootstrap::agree(bootstrap_, deadline_, [&] { return ready(), Blob{}; });
    // Both ends of every link are ready: the first packets may travel.
    bootstrap::agree(bootstrap_, deadline_, [&] { return probe(), Blob{}; });
    join_rails();
    memory_ = {};
    return std::move(result_);
  }

 private:
  // One device and port of every rank, and what they join. The second rail joins some of the pairs
  // that the first one does, or none.
  struct Rail {
    std::vector<Offer> offers;      // by rank; restricted to the ports
    std::vector<PortChoice> ports;  // by rank
    // Ranks of one host mostly offer the same. By rank: the first rank with an equal offer.
    std::vector<int> alike;
    mutable std::map<std::pair<int, int>, Pairs> known_pairs;  // of two of these
    std::vector<int> peers;                                    // of ours
    VerbsTransport* transport = nullptr;
    std::vector<std::unique_ptr<transport::Connection>> connections;  // by rank
  };
  Rail& first() { return rails_.front(); }
  const Rail& first() const { return rails_.front(); }
  Rail& second() { return rails_.back(); }
  const Rail& second() const { return rails_.back(); }

  int size() const { return static_cast<int>(parts_.identities.size()); }
  const std::string& host(int rank) const { return parts_.identities[at(rank)].host; }
  // A slot and staging, and where there are two rails a mirror of the slot at the peer: the same
  // on every rank.
  std::size_t per_peer_bytes() const {
    return mirror_offset() + (has_second_rail_ ? layout_.slot_bytes() : 0);
  }
  std::size_t mirror_offset() const { return layout_.slot_bytes() + layout_.staging_bytes(); }

  void exchange_offers() {
    const auto blobs = bootstrap::agree(bootstrap_, deadline_, [&] {
      devices_ = discover(*parts_.system);
      Wishes wishes = wishes_of(parts_.options, bootstrap_.local_address());
      wishes.ibverbs_missing = ibverbs_missing();
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
      return encode(make_offer(devices_, wishes, host(parts_.rank)));
    });
    for (int rank = 0; rank < size(); ++rank)
      first().offers.push_back(decode(blobs[at(rank)], rank));
    all_offers_ = first().offers;
  }

  // The same on every rank, so nothing is gathered: everybody throws or nobody. False: verbs joins
  // no pair.
  bool choose() {
    std::vector<int> node_ids;
    node_ids.reserve(all_offers_.size());
    for (int rank = 0; rank < size(); ++rank)
      node_ids.push_back(reach_.uses_network_on_node() ? rank : parts_.identities[at(rank)].node);
    choose_ports_of(first(), node_ids);
    const std::vector<Offer>& offers = first().offers;
    std::string why_none;
    int joined = 0;
    bool warned = false;
    for (int low = 0; low < size(); ++low) {
      for (int high = low + 1; high < size(); ++high) {
        if (!reach_.by_network(low, high)) continue;
        const Pairs& found = pairs_between(low, high, first());
        if (!found.pairs.empty()) {
          ++joined;
          continue;
        }
        const std::string why =
            fmt::format("rank {} (on {}) and rank {} (on {}) cannot be joined by verbs: {}{}", low,
                        host(low), high, host(high), found.why_none.cause,
                        apart(parts_.identities[at(low)].place, parts_.identities[at(high)].place));
        if (!reach_.pairs_may_fall_back()) {
          base::throw_error(
              {ErrorCode::no_resource, offers[at(low)].endpoints.empty() ? low : high}, "init",
              found.why_none.hint, "{}", why);
        }
        // Who has no device expects none. Of a pair one rank says it.
        const bool surprising = !devices_.empty() || !offers[at(high)].endpoints.empty();
        if (parts_.rank == low && surprising && !std::exchange(warned, true))
          parts_.log.warning("{}; tcp is used instead ({})", why, found.why_none.hint);
        if (why_none.empty()) why_none = why;
        reach_.pair_falls_back(low, high, why);
      }
    }
    if (joined == 0) reach_.fall_back(why_none);
    for (int peer = 0; peer < size(); ++peer) {
      if (reach_.way(parts_.rank, peer) == Way::verbs) first().peers.push_back(peer);
    }
    if (rails_max_ > 1) choose_second(node_ids);
    const auto ring_bytes = static_cast<std::size_t>(
        ring_bytes_for(peers_max(), parts_.options.network_ring_bytes, full_verbs_rings_max));
    layout_.payload_ring_units = static_cast<std::uint32_t>(ring_bytes / messaging::unit_bytes);
    return joined > 0;
  }

  // Of the rank that has the most.
  std::int64_t peers_max() const {
    std::int64_t most = 0;
    for (int rank = 0; rank < size(); ++rank) most = std::max(most, peer_count(rank));
    return most;
  }
  std::int64_t peer_count(int rank) const {
    std::int64_t count = 0;
    for (int peer = 0; peer < size(); ++peer) count += reach_.way(rank, peer) == Way::verbs ? 1 : 0;
    return count;
  }

  static void choose_ports_of(Rail& rail, const std::vector<int>& node_ids) {
    rail.ports = choose_ports(rail.offers, node_ids);
    for (std::size_t rank = 0; rank < rail.ports.size(); ++rank) {
      rail.offers[rank] = restrict_to(rail.offers[rank], rail.ports[rank]);
      const auto first = std::ranges::find(rail.offers, rail.offers[rank]);
      rail.alike.push_back(static_cast<int>(first - rail.offers.begin()));
    }
  }

  // Found out once for all ranks that offer the same.
  static const Pairs& pairs_between(int low, int high, const Rail& rail) {
    const std::pair key{rail.alike[at(low)], rail.alike[at(high)]};
    const auto known = rail.known_pairs.find(key);
    if (known != rail.known_pairs.end()) return known->second;
    return rail.known_pairs.emplace(key, pairs(rail.offers[at(low)], rail.offers[at(high)]))
        .first->second;
  }

  // As the first, of the ports that it has left.
  void choose_second(const std::vector<int>& node_ids) {
    for (int rank = 0; rank < size(); ++rank)
      second().offers.push_back(without(all_offers_[at(rank)], first().ports[at(rank)]));
    choose_ports_of(second(), node_ids);
    for (int low = 0; low < size(); ++low) {
      for (int high = low + 1; high < size(); ++high) {
        if (reach_.way(low, high) != Way::verbs) continue;
        const Pairs& found = pairs_between(low, high, second());
        has_second_rail_ |= !found.pairs.empty();
        if (low != parts_.rank && high != parts_.rank) continue;
        const int peer = low == parts_.rank ? high : low;
        if (!found.pairs.empty()) second().peers.push_back(peer);
        else parts_.log.info("peer {}: no second rail: {}", peer, found.why_none.cause);
      }
    }
  }

  void open() {
    if (first().peers.empty()) return;
    std::unique_ptr<transport::Transport> transport = open(first());
    if (!second().peers.empty()) {
      transport = std::make_unique<transport::RailedTransport>(
          *parts_.system, parts_.log, std::move(transport), open(second()));
    }
    const std::size_t bytes = per_peer_bytes() * first().peers.size();
    const auto offset = parts_.arena->allocate(bytes);
    if (!offset) {
      base::throw_error({ErrorCode::no_resource}, "init",
                        "raise QPMESH_ARENA_BYTES_MAX or lower QPMESH_NETWORK_RING_BYTES",
                        "the rings of {} ranks need {} bytes, the arena has {} in all",
                        first().peers.size(), bytes, parts_.arena->bytes());
    }
    memory_ = {parts_.arena->data() + *offset, bytes};
    rings_ = transport->register_memory(memory_, transport::RegionKind::lasting);
    if (!second().peers.empty() && rings_.second_region == 0) {
      base::throw_error({ErrorCode::no_resource}, "init",
                        "see this rank's warning; QPMESH_RAILS=1 does without the second device",
                        "the rings of {} ranks could not be registered with {}",
                        first().peers.size(), second().ports[at(parts_.rank)].device);
    }
    const PortChoice& port = first().ports[at(parts_.rank)];
    parts_.log.info("verbs on {} port {}: {} bytes registered for the rings of {} peers, {} each",
                    port.device, port.port, bytes, first().peers.size(), per_peer_bytes());
    result_.transport = std::move(transport);
  }

  std::unique_ptr<VerbsTransport> open(Rail& rail) {
    const bool is_second = &rail == &second();
    const PortChoice& port = rail.ports[at(parts_.rank)];
    const auto device =
        std::find_if(devices_.begin(), devices_.end(),
                     [&](const DeviceFacts& facts) { return facts.name == port.device; });
    result_.busy_neighbour |= device->software;
    const auto peers = static_cast<std::uint32_t>(rail.peers.size());
    const std::uint32_t receives = layout_.immediates_max();
    const QueueNeeds needs{.peers = peers, .sends = send_depth, .receives = receives};
    require_room(*device, needs);
    auto transport = std::make_unique<VerbsTransport>(
        *parts_.system, parts_.log,
        Settings{.host = host(parts_.rank),
                 .port = port,
                 .peers = peers,
                 .receives = receives,
                 .queue_peers = peers_per_queue(*device, needs),
                 .link_timeout_ms = parts_.options.link_timeout_ms,
                 .notifications =
                     notifications(default_notifications(*device, endpoint_of(rail).link_layer)),
                 .second_rail = is_second,
                 .cm = job_member()});
    rail.transport = transport.get();
    return transport;
  }

  const Endpoint& endpoint_of(const Rail& rail) const {
    return rail.offers[at(parts_.rank)].endpoints.front();
  }

  // Of the ranks that use the device of this one's rail the lowest tests it, as this of its own
  // rails: at the same time they would disturb each other.
  struct Tester {
    int rank;
    std::size_t rail;
  };
  Tester tester_of(const Rail& rail) const {
    const auto device_of = [&](int rank, const Rail& of) {
      const base::Place& place = parts_.identities[at(rank)].place;
      return std::tie(place.boot_id, place.net_namespace, of.ports[at(rank)].device);
    };
    for (int rank = 0;; ++rank) {
      for (std::size_t i = 0; i < rails_.size(); ++i) {
        if (rails_[i].ports.empty() || device_of(rank, rails_[i]) != device_of(parts_.rank, rail))
          continue;
        if (is_used(rails_[i], rank)) return {.rank = rank, .rail = i};
      }
    }
  }

  // By some pair of that rank.
  bool is_used(const Rail& rail, int rank) const {
    for (int peer = 0; peer < size(); ++peer) {
      if (reach_.way(rank, peer) != Way::verbs) continue;
      if (&rail == &first()) return true;
      if (!pairs_between(std::min(rank, peer), std::max(rank, peer), rail).pairs.empty())
        return true;
    }
    return false;
  }

  // What was seen of the devices of both rails; empty of those that others test.
  Blob test() const {
    base::ByteWriter out;
    for (const Rail& rail : rails_) out.put_fields(test(rail));
    return std::move(out).blob();
  }
  Blob test(const Rail& rail) const {
    if (rail.peers.empty()) return {};
    const Tester tester = tester_of(rail);
    if (tester.rank != parts_.rank || &rails_[tester.rail] != &rail) return {};
    const Placement seen = test_placement(*parts_.system, endpoint_of(rail));
    parts_.log.info(
        "self-test of {}: {} records, {} seen in part, {} out of order, {} overtook their "
        "payload; polled {} ns, immediate {} ns{}{}",
        rail.ports[at(parts_.rank)].device, seen.records, seen.partial, seen.out_of_order,
        seen.overtaken, seen.polled_ns, seen.immediate_ns, seen.failure.empty() ? "" : "; ",
        seen.failure);
    return encode(seen);
  }

  // By what the testers of this rank's devices saw. The second rail may have to carry records, too:
  // no more is relied on than both devices keep.
  void judge(const std::vector<Blob>& tests) const {
    const bool is_free = parts_.options.notification == NotificationChoice::automatic;
    std::optional<Notifications> together;
    for (const Rail& rail : rails_) {
      if (rail.peers.empty()) continue;
      const Tester tester = tester_of(rail);
      std::array<Blob, 2> of_rails;
      base::ByteReader in{tests[at(tester.rank)]};
      in.get_fields(of_rails[0], of_rails[1]);
      const Placement seen = decode_placement(of_rails[tester.rail], tester.rank);
      Notifications judged = judge_placement(rail.transport->relied_on(), seen);
      if (is_free) judged = prefer_sooner(judged, seen);
      together = together ? less_of(*together, judged) : judged;
    }
    for (const Rail& rail : rails_) {
      if (!rail.peers.empty()) rail.transport->rely_on(*together);
    }
  }

  Notifications notifications(Notifications by_device) const {
    using transport::Notification;
    switch (parts_.options.notification) {
      case NotificationChoice::automatic: break;
      case NotificationChoice::poll: return {Notification::poll, Notification::poll, "forced"};
      case NotificationChoice::immediate:
        return {Notification::immediate, Notification::immediate, "forced"};
      case NotificationChoice::mixed:
        return {Notification::poll, Notification::immediate, "forced"};
    }
    return by_device;
  }

  static bool joins(const Rail& rail, int peer) {
    return std::ranges::find(rail.peers, peer) != rail.peers.end();
  }

  // By rank: what it has for all its peers. In as many gathers as the rank with the most peers
  // needs.
  std::vector<Blob> gather_addresses() {
    std::vector<Blob> addresses(at(size()));
    for (std::int64_t begin = 0; begin < peers_max(); begin += addresses_per_blob_max) {
      const auto part = bootstrap::agree(bootstrap_, deadline_, [&] {
        return addresses_for(static_cast<std::size_t>(begin), addresses_per_blob_max);
      });
      for (std::size_t rank = 0; rank < part.size(); ++rank)
        addresses[rank].insert(addresses[rank].end(), part[rank].begin(), part[rank].end());
    }
    return addresses;
  }

  // For so many peers from this one on: the addresses of our queue pairs for it, the second empty
  // where there is none, and of its ring slot here.
  Blob addresses_for(std::size_t begin, std::size_t count) {
    base::ByteWriter out;
    for (std::size_t i = begin; i < std::min(begin + count, first().peers.size()); ++i) {
      const int peer = first().peers[i];
      const auto address_on = [&](Rail& rail) {
        return joins(rail, peer) ? rail.transport->address_for(peer, paths_to(peer, rail)) : Blob{};
      };
      const transport::RemoteAddress slot = rings_ + i * per_peer_bytes();
      out.put_fields(peer, address_on(first()), address_on(second()), slot.region, slot.offset,
                     slot.second_region);
    }
    return std::move(out).blob();
  }

  PeerPaths paths_to(int peer, const Rail& rail) const {
    const int rank = parts_.rank;
    const Offer& low = rail.offers[at(std::min(rank, peer))];
    const Offer& high = rail.offers[at(std::max(rank, peer))];
    PeerPaths paths{.peer_host = host(peer), .choices = {}};
    for (const Pair& pair : pairs_between(std::min(rank, peer), std::max(rank, peer), rail).pairs) {
      const Endpoint& of_low = low.endpoints[pair.low];
      const Endpoint& of_high = high.endpoints[pair.high];
      paths.choices.push_back(rank < peer ? Path{of_low, of_high} : Path{of_high, of_low});
    }
    return paths;
  }

  void connect(const std::vector<Blob>& addresses) {
    result_.links.resize(at(size()));
    for (Rail& rail : rails_) rail.connections.resize(at(size()));
    for (std::size_t i = 0; i < first().peers.size(); ++i) {
      const int peer = first().peers[i];
      base::ByteReader in{addresses[at(peer)]};
      int target = no_peer;
      Blob address;
      Blob second_address;
      transport::RemoteAddress slot;
      while (target != parts_.rank && in.ok() && !in.finished())
        in.get_fields(target, address, second_address, slot.region, slot.offset,
                      slot.second_region);
      if (!in.ok() || target != parts_.rank || address.empty() ||
          second_address.empty() == joins(second(), peer)) {
        base::throw_error({ErrorCode::corrupt, peer}, "init", "",
                          "its {} bytes hold no address for this rank", addresses[at(peer)].size());
      }
      first().connections[at(peer)] = first().transport->connect(peer, address);
      if (!second_address.empty())
        second().connections[at(peer)] = second().transport->connect(peer, second_address);
      result_.links[at(peer)] = {.connection = nullptr, .places = places_for(i, slot)};
    }
  }

  // i: the peer's index among ours. slot: what we write there.
  messaging::PeerPlaces places_for(std::size_t i, const transport::RemoteAddress& slot) {
    std::byte* const own = memory_.data() + i * per_peer_bytes();
    return {.transport = result_.transport.get(),
            .connection = nullptr,
            .layout = layout_,
            .slot = own,
            .remote_slot = slot,
            .remote_revocations = {},
            .staging = {own + layout_.slot_bytes(), layout_.staging_bytes()}};
  }
  std::span<std::byte> mirror_for(const messaging::PeerPlaces& places) const {
    return {places.slot + mirror_offset(), layout_.slot_bytes()};
  }

  // The communication manager connects in init.
  bool connects_later() const {
    return parts_.options.connect_when == ConnectWhen::first_use && !asks_manager();
  }
  Blob end_facts() const {
    if (first().peers.empty()) return {};
    return encode(EndFacts{.relied_on = first().transport->relied_on(), .rings = rings_});
  }

  void connect_later(const std::vector<Blob>& facts) {
    result_.links.resize(at(size()));
    for (Rail& rail : rails_) rail.connections.resize(at(size()));
    if (first().peers.empty()) return;
    VerbsEnds::Places places(at(size()));
    for (std::size_t i = 0; i < first().peers.size(); ++i) {
      const int peer = first().peers[i];
      const EndFacts theirs = decode_end_facts(facts[at(peer)], peer);
      for (Rail& rail : rails_) {
        if (!joins(rail, peer)) continue;
        rail.connections[at(peer)] =
            rail.transport->connect_later(peer, paths_to(peer, rail), theirs.relied_on);
      }
      places[at(peer)] = places_for(i, theirs.rings + index_at(peer) * per_peer_bytes());
      result_.links[at(peer)].places = *places[at(peer)];
    }
    const auto exchange = std::make_shared<ExchangeOnDemand>(
        std::make_unique<VerbsEnds>(*first().transport, second().transport, std::move(places)),
        size());
    for (const Rail& rail : rails_) {
      if (rail.transport != nullptr)
        rail.transport->ask_by([exchange](int peer) { exchange->want(peer); });
    }
    for (const int peer : first().peers) result_.links[at(peer)].on_demand = exchange.get();
  }

  // Ours among the peers of that rank.
  std::size_t index_at(int peer) const {
    std::size_t index = 0;
    for (int rank = 0; rank < parts_.rank; ++rank)
      index += reach_.way(peer, rank) == Way::verbs ? 1U : 0U;
    return index;
  }

  // Whether some pair is connected by the communication manager: the same on every rank.
  bool asks_manager() const { return parts_.options.connect == ConnectBy::cm; }
  std::optional<JobMember> job_member() const {
    if (!asks_manager()) return std::nullopt;
    return JobMember{.job = base::mix64(parts_.epoch ^ connection_requests), .rank = parts_.rank};
  }
  void ready() {
    const Deadline end = bootstrap::leaving_time_to_agree(*parts_.system, deadline_);
    for (const Rail& rail : rails_) {
      if (rail.transport != nullptr) rail.transport->make_ready(end);
    }
  }

  void probe() {
    const Deadline end = bootstrap::leaving_time_to_agree(*parts_.system, deadline_);
    for (const Rail& rail : rails_) {
      for (const int peer : rail.peers)
        probe_staging(connection_to(peer, rail), result_.links[at(peer)].places,
                      &rail == &second());
    }
    for (const Rail& rail : rails_) {
      for (const int peer : rail.peers) await_probe(peer, rail, end);
    }
  }

  void await_probe(int peer, const Rail& rail, Deadline end) const {
    VerbsConnection& connection = connection_to(peer, rail);
    while (!connection.is_probed() && connection.fault() == nullptr) {
      result_.transport->progress();
      result_.transport->poll_async_events();
      if (parts_.system->now() >= end) {
        fail_link(
            peer, ErrorCode::timeout,
            describe_silence(
                "three quarters of QPMESH_INIT_TIMEOUT_MS passed before the first writes completed",
                connection.link()));
      }
      ::sched_yield();
    }
    if (const ErrorDetail* const fault = connection.fault()) {
      fail_link(peer, ErrorCode::link_failed, {.cause = fault->cause, .hint = fault->hint},
                fault->system_error);
    }
  }

  void join_rails() {
    for (const int peer : first().peers) {
      std::unique_ptr<transport::Connection>& connection = result_.links[at(peer)].connection;
      connection = std::move(first().connections[at(peer)]);
      if (!joins(second(), peer)) continue;
      const messaging::PeerPlaces& places = result_.links[at(peer)].places;
      const auto name_of = [&](const Rail& rail) {
        const PortChoice& port = rail.ports[at(parts_.rank)];
        return fmt::format("{} port {}", port.device, port.port);
      };
      connection = std::make_unique<transport::RailedConnection>(transport::RailedConnection::Parts{
          .transport = static_cast<transport::RailedTransport*>(result_.transport.get()),
          .peer = peer,
          .first = std::move(connection),
          .second = std::move(second().connections[at(peer)]),
          .names = {name_of(first()), name_of(second())},
          .notice = places.slot + messaging::RingLayout::rail_notice_offset,
          .peer_notice = places.remote_slot + messaging::RingLayout::rail_notice_offset,
          .mirror = mirror_for(places),
          .places = places.remote_slot,
          .messages_max = layout_.messages_max()});
    }
  }

  VerbsConnection& connection_to(int peer, const Rail& rail) const {
    return static_cast<VerbsConnection&>(*rail.connections[at(peer)]);
  }

  [[noreturn]] static void fail_link(int peer, ErrorCode code, const Explanation& why,
                                     int system_error = 0) {
    base::throw_error({.code = code, .peer = peer, .system_error = system_error}, "init", why.hint,
                      "{}", why.cause);
  }

  Bootstrap& bootstrap_;
  Reach& reach_;
  const context::ContextParts& parts_;
  Deadline deadline_;
  int rails_max_;
  bool has_second_rail_ = false;
  messaging::RingLayout layout_;
  std::vector<DeviceFacts> devices_;
  std::vector<Offer> all_offers_;  // by rank
  std::array<Rail, 2> rails_;
  std::span<std::byte> memory_;  // slots, staging and mirrors, by index in the first rail's peers
  transport::RemoteAddress rings_;
  NetworkLinks result_;
};

// Of what a bring-up throws all ranks have the same, and may try another way, but for an error of
// the bootstrap itself: then there is nobody to try with.
bool is_agreed(const Error& error, const base::System& system, Deadline deadline) {
  const ErrorCode code = error.code();
  return code != ErrorCode::peer_dead && code != ErrorCode::corrupt &&
         code != ErrorCode::bad_argument && system.now() < deadline;
}

}  // namespace

NetworkLinks link_verbs(Bootstrap& bootstrap, Reach& reach, const context::ContextParts& parts,
                        Deadline deadline) {
  if (!reach.any(Way::verbs)) return {};
  auto rails = static_cast<int>(parts.options.rails);
  while (true) {
    Linking linking{bootstrap, reach, parts, deadline, rails};
    try {
      return linking.run();
    } catch (const Error& error) {
      if (!is_agreed(error, *parts.system, deadline)) throw;
      const auto warn = [&](std::string_view instead) {
        if (parts.rank == 0) parts.log.warning("{}; {}", error.what(), instead);
      };
      if (linking.has_second_rail()) {
        warn("one device alone is used instead of two");
        rails = 1;
        continue;
      }
      if (!reach.may_fall_back()) throw;
      reach.fall_back(error.cause());
      warn(reach.any(Way::tcp) ? "tcp is used instead of verbs"
                               : "shared memory is used instead of verbs");
      return {};
    }
  }
}

#endif

}  // namespace qpmesh::startup
