#include "startup/verbs_bring_up.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "base/bytes.hpp"
#include "base/errors.hpp"
#include "bootstrap/agreement.hpp"
#include "messaging/rings/layout.hpp"
#include "topology/cores.hpp"
#ifdef QPMESH_WITH_VERBS
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

constexpr std::size_t packet_bytes_max = 4096;  // the largest path MTU

std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

class Linking {
 public:
  Linking(Bootstrap& bootstrap, Reach& reach, const context::ContextParts& parts, Deadline deadline)
      : bootstrap_{bootstrap}, reach_{reach}, parts_{parts}, deadline_{deadline} {
    layout_.payload_ring_units =
        static_cast<std::uint32_t>(parts.options.network_ring_bytes) / messaging::unit_bytes;
  }

  // Of a bring-up that failed: nothing is left behind.
  ~Linking() {
    result_.links.clear();
    result_.transport.reset();
    if (!memory_.empty())
      parts_.arena->free(parts_.arena->offset_of(memory_.data()), memory_.size());
  }
  Linking(const Linking&) = delete;
  Linking& operator=(const Linking&) = delete;

  // Every step is taken by all ranks, also by those that need no link.
  NetworkLinks run() {
    exchange_offers();
    if (!choose()) return {};
    judge(bootstrap::agree(bootstrap_, deadline_, [&] {
      open();
      return test();
    }));
    const auto addresses =
        bootstrap::agree(bootstrap_, deadline_, [&] { return addresses_for_all(); });
    bootstrap::agree(bootstrap_, deadline_, [&] { return connect(addresses), Blob{}; });
    // Both ends of every link are ready: the first packets may travel.
    bootstrap::agree(bootstrap_, deadline_, [&] { return probe(), Blob{}; });
    memory_ = {};
    return std::move(result_);
  }

 private:
  int size() const { return static_cast<int>(parts_.identities.size()); }
  const std::string& host(int rank) const { return parts_.identities[at(rank)].host; }
  std::size_t per_peer_bytes() const { return layout_.slot_bytes() + layout_.staging_bytes(); }

  void exchange_offers() {
    const auto blobs = bootstrap::agree(bootstrap_, deadline_, [&] {
      devices_ = discover(*parts_.system);
      Wishes wishes = wishes_of(parts_.options, bootstrap_.local_address());
      const bool placed = std::ranges::any_of(
          devices_, [](const DeviceFacts& device) { return device.numa_node >= 0; });
      if (placed) {
        wishes.numa_node =
            topology::numa_node_of(topology::usable_cores().cores, topology::numa_nodes());
      }
      return encode(make_offer(devices_, wishes, host(parts_.rank)));
    });
    for (int rank = 0; rank < size(); ++rank) offers_.push_back(decode(blobs[at(rank)], rank));
  }

  // The same on every rank, so nothing is gathered: everybody throws or nobody. False: verbs joins
  // no pair.
  bool choose() {
    std::vector<int> node_ids;
    node_ids.reserve(offers_.size());
    for (int rank = 0; rank < size(); ++rank)
      node_ids.push_back(reach_.uses_network_on_node() ? rank : parts_.identities[at(rank)].node);
    ports_ = choose_ports(offers_, node_ids);
    for (int rank = 0; rank < size(); ++rank)
      offers_[at(rank)] = restrict_to(offers_[at(rank)], ports_[at(rank)]);
    std::string why_none;
    int joined = 0;
    bool warned = false;
    for (int low = 0; low < size(); ++low) {
      for (int high = low + 1; high < size(); ++high) {
        if (!reach_.by_network(low, high)) continue;
        const Pairs found = pairs(offers_[at(low)], offers_[at(high)]);
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
              {ErrorCode::no_resource, offers_[at(low)].endpoints.empty() ? low : high}, "init",
              found.why_none.hint, "{}", why);
        }
        // Who has no device expects none. Of a pair one rank says it.
        const bool surprising = !devices_.empty() || !offers_[at(high)].endpoints.empty();
        if (parts_.rank == low && surprising && !std::exchange(warned, true))
          parts_.log.warning("{}; tcp is used instead ({})", why, found.why_none.hint);
        if (why_none.empty()) why_none = why;
        reach_.pair_falls_back(low, high, why);
      }
    }
    if (joined == 0) reach_.fall_back(why_none);
    for (int peer = 0; peer < size(); ++peer) {
      if (reach_.way(parts_.rank, peer) == Way::verbs) peers_.push_back(peer);
    }
    return joined > 0;
  }

  void open() {
    if (peers_.empty()) return;
    const PortChoice& port = ports_[at(parts_.rank)];
    const auto device =
        std::find_if(devices_.begin(), devices_.end(),
                     [&](const DeviceFacts& facts) { return facts.name == port.device; });
    result_.busy_neighbour = device->software;
    require_room(*device, {.peers = static_cast<std::uint32_t>(peers_.size()),
                           .sends = send_depth,
                           .receives = layout_.immediates_max()});
    auto transport = std::make_unique<VerbsTransport>(
        *parts_.system, parts_.log,
        Settings{.host = host(parts_.rank),
                 .port = port,
                 .peers = static_cast<std::uint32_t>(peers_.size()),
                 .receives = layout_.immediates_max(),
                 .link_timeout_ms = parts_.options.link_timeout_ms,
                 .notifications =
                     notifications(default_notifications(*device, first_endpoint().link_layer))});
    const std::size_t bytes = per_peer_bytes() * peers_.size();
    const auto offset = parts_.arena->allocate(bytes);
    if (!offset) {
      base::throw_error({ErrorCode::no_resource}, "init",
                        "raise QPMESH_ARENA_BYTES_MAX or lower QPMESH_NETWORK_RING_BYTES",
                        "the rings of {} ranks need {} bytes, the arena has {} in all",
                        peers_.size(), bytes, parts_.arena->bytes());
    }
    memory_ = {parts_.arena->data() + *offset, bytes};
    rings_ = transport->register_memory(memory_, transport::RegionKind::lasting);
    parts_.log.info("verbs on {} port {}: {} bytes registered for rings, {} per peer", port.device,
                    port.port, bytes, per_peer_bytes());
    transport_ = transport.get();
    result_.transport = std::move(transport);
  }

  const Endpoint& first_endpoint() const { return offers_[at(parts_.rank)].endpoints.front(); }

  // Of the ranks that use this one's device the lowest tests it: at the same time they would
  // disturb each other.
  int tester() const {
    const auto device_of = [&](int rank) {
      const base::Place& place = parts_.identities[at(rank)].place;
      return std::tie(place.boot_id, place.net_namespace, ports_[at(rank)].device);
    };
    int rank = 0;
    while (device_of(rank) != device_of(parts_.rank) || !has_peers(rank)) ++rank;
    return rank;
  }
  bool has_peers(int rank) const {
    for (int peer = 0; peer < size(); ++peer) {
      if (reach_.way(rank, peer) == Way::verbs) return true;
    }
    return false;
  }

  Blob test() const {
    if (peers_.empty() || tester() != parts_.rank) return {};
    const Placement seen = test_placement(*parts_.system, first_endpoint());
    parts_.log.info(
        "self-test of {}: {} records, {} seen in part, {} out of order, {} overtook their "
        "payload{}{}",
        ports_[at(parts_.rank)].device, seen.records, seen.partial, seen.out_of_order,
        seen.overtaken, seen.failure.empty() ? "" : "; ", seen.failure);
    return encode(seen);
  }

  // By what the tester of this rank's device saw.
  void judge(const std::vector<Blob>& tests) const {
    if (peers_.empty()) return;
    const int rank = tester();
    transport_->rely_on(
        judge_placement(transport_->relied_on(), decode_placement(tests[at(rank)], rank)));
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

  // For every rank, in order: the address of our queue pair for it and of its ring slot here.
  Blob addresses_for_all() {
    base::ByteWriter out;
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      const int peer = peers_[i];
      out.put_fields(peer, transport_->address_for(peer, paths_to(peer)), rings_.region,
                     rings_.offset + i * per_peer_bytes());
    }
    return std::move(out).blob();
  }

  PeerPaths paths_to(int peer) const {
    const int rank = parts_.rank;
    const Offer& low = offers_[at(std::min(rank, peer))];
    const Offer& high = offers_[at(std::max(rank, peer))];
    PeerPaths paths{.peer_host = host(peer), .choices = {}};
    for (const Pair& pair : pairs(low, high).pairs) {
      const Endpoint& of_low = low.endpoints[pair.low];
      const Endpoint& of_high = high.endpoints[pair.high];
      paths.choices.push_back(rank < peer ? Path{of_low, of_high} : Path{of_high, of_low});
    }
    return paths;
  }

  void connect(const std::vector<Blob>& addresses) {
    result_.links.resize(at(size()));
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      const int peer = peers_[i];
      base::ByteReader in{addresses[at(peer)]};
      int target = no_peer;
      Blob address;
      transport::RemoteAddress slot;
      while (target != parts_.rank && in.ok() && !in.finished())
        in.get_fields(target, address, slot.region, slot.offset);
      if (!in.ok() || target != parts_.rank || address.empty()) {
        base::throw_error({ErrorCode::corrupt, peer}, "init", "",
                          "its {} bytes hold no address for this rank", addresses[at(peer)].size());
      }
      std::byte* const own = memory_.data() + i * per_peer_bytes();
      result_.links[at(peer)] = {
          .connection = transport_->connect(peer, address),
          .places = {.transport = transport_,
                     .connection = nullptr,
                     .layout = layout_,
                     .slot = own,
                     .remote_slot = slot,
                     .remote_revocations = {},
                     .staging = {own + layout_.slot_bytes(), layout_.staging_bytes()}}};
    }
  }

  // An empty write to every peer, then one of the longest packet, into staging that nobody uses
  // yet: only packets show a firewall, a wrong route or an MTU that the path does not carry.
  void probe() {
    const transport::Write empty{
        .head = {}, .body = {}, .target = {}, .immediate = {}, .tell = true};
    for (const int peer : peers_) {
      const messaging::PeerPlaces& places = result_.links[at(peer)].places;
      const std::array chain{
          empty,
          transport::Write{
              .head = {},
              .body = places.staging.first(std::min(packet_bytes_max, places.staging.size())),
              .target = {.region = places.remote_slot.region,
                         .offset = places.remote_slot.offset + layout_.slot_bytes()},
              .immediate = {},
              .tell = true}};
      connection_to(peer).post(chain);
    }
    for (const int peer : peers_) {
      VerbsConnection& connection = connection_to(peer);
      while (connection.completed() < 2 && connection.fault() == nullptr) {
        transport_->progress();
        transport_->poll_async_events();
        if (parts_.system->now() >= deadline_) {
          fail_link(
              peer, ErrorCode::timeout,
              describe_silence("QPMESH_INIT_TIMEOUT_MS passed before the first writes completed",
                               connection.link()));
        }
        ::sched_yield();
      }
      if (const ErrorDetail* const fault = connection.fault()) {
        Explanation why{.cause = fault->cause, .hint = fault->hint};
        if (connection.completed() == 1 && connection.unanswered())
          why = describe_cut_path(connection.link(), std::move(why));
        fail_link(peer, ErrorCode::link_failed, why, fault->system_error);
      }
    }
  }

  VerbsConnection& connection_to(int peer) const {
    return static_cast<VerbsConnection&>(*result_.links[at(peer)].connection);
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
  messaging::RingLayout layout_;
  std::vector<int> peers_;  // ours by network
  std::vector<DeviceFacts> devices_;
  std::vector<Offer> offers_;
  std::vector<PortChoice> ports_;
  std::span<std::byte> memory_;  // slots and staging, by index in peers_
  transport::RemoteAddress rings_;
  VerbsTransport* transport_ = nullptr;
  NetworkLinks result_;
};

}  // namespace

NetworkLinks link_verbs(Bootstrap& bootstrap, Reach& reach, const context::ContextParts& parts,
                        Deadline deadline) {
  if (!reach.any(Way::verbs)) return {};
  try {
    return Linking{bootstrap, reach, parts, deadline}.run();
  } catch (const Error& error) {
    if (!reach.may_fall_back()) throw;
    // All ranks are here with the same error.
    reach.fall_back(error.cause());
    if (parts.rank == 0)
      parts.log.warning("{}; {} is used instead of verbs", error.what(),
                        reach.any(Way::tcp) ? "tcp" : "shared memory");
    return {};
  }
}

#endif

}  // namespace qpmesh::startup
