// SPDX-License-Identifier: MIT
#include "startup/verbs_bring_up.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "base/bytes.hpp"
#include "base/errors.hpp"
#include "base/interrupt.hpp"
#include "bootstrap/agreement.hpp"
#include "messaging/rings/layout.hpp"
#include "startup/exchange_on_demand.hpp"
#include "startup/network_rings.hpp"
#include "transport/rails.hpp"
#ifdef QPMESH_WITH_VERBS
#include "startup/verbs_ends.hpp"
#include "startup/verbs_rails.hpp"
#include "transport/verbs/connection.hpp"
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

// Each takes at most 86 bytes of a blob's 64 KiB.
constexpr std::int64_t addresses_per_blob_max = 512;

// Told from other uses of the epoch.
constexpr std::uint64_t connection_requests = 0x6d63'6873'656d'7071U;

std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

// Where pairs are connected as they are first used: where the rings of its first peer are.
Blob encode(const transport::RemoteAddress& rings) {
  base::ByteWriter out;
  out.put_fields(rings.region, rings.offset, rings.second_region);
  return std::move(out).blob();
}

transport::RemoteAddress decode_rings(BlobView bytes, int peer) {
  base::ByteReader in{bytes};
  transport::RemoteAddress rings;
  in.get_fields(rings.region, rings.offset, rings.second_region);
  if (in.finished()) return rings;
  base::throw_error({ErrorCode::corrupt, peer}, "init", "",
                    "{} bytes do not say where its rings are", bytes.size());
}

class Linking {
 public:
  // rails: how many devices or ports of a rank may be used.
  Linking(Bootstrap& bootstrap, Reach& reach, const context::ContextParts& parts, Deadline deadline,
          int rails)
      : bootstrap_{bootstrap},
        reach_{reach},
        parts_{parts},
        deadline_{deadline},
        choice_{reach, parts, rails} {}

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

  // As VerbsRails says.
  bool has_second_rail() const { return choice_.has_second(); }

  // Every step is taken by all ranks, also by those that need no link.
  NetworkLinks run() {
    if (!choice_.choose(bootstrap_, deadline_)) return {};
    if (wants_first_use() && asks_manager() && parts_.rank == 0) {
      parts_.log.warning(
          "QPMESH_CONNECT_WHEN=first_use does nothing to verbs with QPMESH_CONNECT=cm: all its "
          "pairs are connected in init");
    }
    lay_out_rings();
    tests_ = bootstrap::agree(bootstrap_, deadline_, [&] {
      open();
      return choice_.test();
    });
    if (connects_later()) {
      connect_later(bootstrap::agree(bootstrap_, deadline_, [&] {
        rely();
        return first().choice.peers.empty() ? Blob{} : encode(rings_);
      }));
      join_rails();
      memory_ = {};
      return std::move(result_);
    }
    const std::vector<Blob> addresses = gather_addresses();
    bootstrap::agree(bootstrap_, deadline_, [&] { return connect(addresses), Blob{}; });
    // By the manager the lower rank of a pair calls, and sends first, as iWARP asks for (RFC 5044,
    // section 7.1).
    const auto calls = [&](int peer) { return asks_manager() && parts_.rank < peer; };
    const auto others = [&](int peer) { return !calls(peer); };
    if (asks_manager()) {
      bootstrap::agree(bootstrap_, deadline_, [&] { return ready(), Blob{}; });
      bootstrap::agree(bootstrap_, deadline_, [&] { return probe(calls), Blob{}; });
    }
    // Both ends of every link are ready: packets may travel.
    bootstrap::agree(bootstrap_, deadline_, [&] { return probe(others), Blob{}; });
    join_rails();
    memory_ = {};
    return std::move(result_);
  }

 private:
  // A rail, and what this rank opens on it.
  struct Rail {
    const RailChoice& choice;
    VerbsTransport* transport = nullptr;
    std::vector<std::unique_ptr<transport::Connection>> connections{};  // by rank
  };
  Rail& first() { return rails_.front(); }
  const Rail& first() const { return rails_.front(); }
  Rail& second() { return rails_.back(); }
  const Rail& second() const { return rails_.back(); }

  int size() const { return static_cast<int>(parts_.identities.size()); }
  const std::string& host(int rank) const { return parts_.identities[at(rank)].host; }
  // A slot, staging and what the peer's first write may fill, and where there are two rails a
  // mirror of the slot at the peer: the same on every rank.
  std::size_t per_peer_bytes() const {
    return messaging::in_odd_pages(mirror_offset() +
                                   (has_second_rail() ? layout_.slot_bytes() : 0));
  }
  std::size_t mirror_offset() const {
    return layout_.slot_bytes() + layout_.staging_bytes() + probed_bytes;
  }

  void lay_out_rings() {
    const auto ring_bytes = static_cast<std::size_t>(
        ring_bytes_for(peers_max(), parts_.options.network_ring_bytes, full_verbs_rings_max));
    layout_.payload_ring_units = static_cast<std::uint32_t>(ring_bytes / messaging::unit_bytes);
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

  void open() {
    if (first().choice.peers.empty()) return;
    std::unique_ptr<transport::Transport> transport = open(first());
    if (!second().choice.peers.empty()) {
      transport = std::make_unique<transport::RailedTransport>(
          *parts_.system, parts_.log, std::move(transport), open(second()));
    }
    const std::size_t bytes = per_peer_bytes() * first().choice.peers.size();
    const auto offset = parts_.arena->allocate(bytes);
    if (!offset) {
      base::throw_error(
          {ErrorCode::no_resource}, "init",
          "raise QPMESH_ARENA_BYTES_MAX or lower QPMESH_NETWORK_RING_BYTES",
          "for the rings of {} ranks the arena has no {} bytes left in one piece, of {} in all",
          first().choice.peers.size(), bytes, parts_.arena->bytes());
    }
    memory_ = {parts_.arena->data() + *offset, bytes};
    rings_ = transport->register_memory(memory_, transport::RegionKind::lasting);
    if (!second().choice.peers.empty() && rings_.second_region == 0) {
      base::throw_error({ErrorCode::no_resource}, "init",
                        "see this rank's warning; QPMESH_RAILS=1 does without the second device",
                        "the rings of {} ranks could not be registered with {}",
                        first().choice.peers.size(), choice_.port_of(second().choice).device);
    }
    const PortChoice& port = choice_.port_of(first().choice);
    parts_.log.info("verbs on {} port {}: {} bytes registered for the rings of {} peers, {} each",
                    port.device, port.port, bytes, first().choice.peers.size(), per_peer_bytes());
    result_.transport = std::move(transport);
  }

  std::unique_ptr<VerbsTransport> open(Rail& rail) {
    const bool is_second = &rail == &second();
    const DeviceFacts& device = choice_.device_of(rail.choice);
    result_.busy_neighbour |= device.software;
    const auto peers = static_cast<std::uint32_t>(rail.choice.peers.size());
    const auto immediates_max = [layout = layout_](const transport::Capabilities& of) {
      return layout.immediates_max(of.small, of.medium);
    };
    auto transport =
        std::make_unique<VerbsTransport>(*parts_.system, parts_.log,
                                         Settings{.host = host(parts_.rank),
                                                  .port = choice_.port_of(rail.choice),
                                                  .device = device,
                                                  .peers = peers,
                                                  .immediates_max = immediates_max,
                                                  .link_timeout_ms = parts_.options.link_timeout_ms,
                                                  .second_rail = is_second,
                                                  .cm = job_member()});
    rail.transport = transport.get();
    return transport;
  }

  // Known of all ranks before any queue pair is made, so that each has the receives that it needs.
  void rely() {
    if (first().choice.peers.empty()) return;
    const Notifications ours = choice_.relied_on(parts_.rank, tests_);
    const DeviceFacts& device = choice_.device_of(first().choice);
    const bool asks_for_immediates =
        std::max(ours.small, ours.medium) == transport::Notification::immediate;
    if (device.protocol == DeviceProtocol::iwarp && asks_for_immediates) {
      base::throw_error({ErrorCode::no_resource}, "init",
                        "QPMESH_NOTIFICATION=poll if its maker says that writes are placed in the "
                        "order in which they were posted; QPMESH_TRANSPORT=tcp does without it",
                        "iWARP has no immediates, and {} cannot do without them: {}", device.name,
                        ours.reason);
    }
    for (Rail& rail : rails_) {
      if (rail.choice.peers.empty()) continue;
      Notifications least = ours;
      for (const int peer : rail.choice.peers) least = less_of(least, relied_on_by(peer));
      rail.transport->rely_on(ours, least);
    }
  }
  const Notifications& relied_on_by(int peer) {
    const auto [known, added] = relied_on_.try_emplace(peer);
    if (added) known->second = choice_.relied_on(peer, tests_);
    return known->second;
  }

  // By rank: what it has for all its peers. In as many gathers as the rank with the most peers
  // needs.
  std::vector<Blob> gather_addresses() {
    std::vector<Blob> addresses(at(size()));
    for (std::int64_t begin = 0; begin < peers_max(); begin += addresses_per_blob_max) {
      const auto part = bootstrap::agree(bootstrap_, deadline_, [&] {
        if (begin == 0) rely();
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
    for (std::size_t i = begin; i < std::min(begin + count, first().choice.peers.size()); ++i) {
      const int peer = first().choice.peers[i];
      const auto address_on = [&](Rail& rail) {
        if (!rail.choice.joins(peer)) return Blob{};
        return rail.transport->address_for(peer,
                                           choice_.paths_to(peer, rail.choice, relied_on_by(peer)));
      };
      const transport::RemoteAddress slot = rings_ + i * per_peer_bytes();
      out.put_fields(peer, address_on(first()), address_on(second()), slot.region, slot.offset,
                     slot.second_region);
    }
    return std::move(out).blob();
  }

  void connect(const std::vector<Blob>& addresses) {
    result_.links.resize(at(size()));
    for (Rail& rail : rails_) rail.connections.resize(at(size()));
    for (std::size_t i = 0; i < first().choice.peers.size(); ++i) {
      const int peer = first().choice.peers[i];
      base::ByteReader in{addresses[at(peer)]};
      int target = no_peer;
      Blob address;
      Blob second_address;
      transport::RemoteAddress slot;
      while (target != parts_.rank && in.ok() && !in.finished())
        in.get_fields(target, address, second_address, slot.region, slot.offset,
                      slot.second_region);
      if (!in.ok() || target != parts_.rank || address.empty() ||
          second_address.empty() == second().choice.joins(peer)) {
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

  bool wants_first_use() const { return parts_.options.connect_when == ConnectWhen::first_use; }
  // The communication manager connects in init.
  bool connects_later() const { return wants_first_use() && !asks_manager(); }

  void connect_later(const std::vector<Blob>& rings) {
    result_.links.resize(at(size()));
    for (Rail& rail : rails_) rail.connections.resize(at(size()));
    if (first().choice.peers.empty()) return;
    VerbsEnds::Places places(at(size()));
    for (std::size_t i = 0; i < first().choice.peers.size(); ++i) {
      const int peer = first().choice.peers[i];
      const transport::RemoteAddress theirs = decode_rings(rings[at(peer)], peer);
      for (Rail& rail : rails_) {
        if (!rail.choice.joins(peer)) continue;
        rail.connections[at(peer)] = rail.transport->connect_later(
            peer, choice_.paths_to(peer, rail.choice, relied_on_by(peer)));
      }
      places[at(peer)] = places_for(i, theirs + index_at(peer) * per_peer_bytes());
      result_.links[at(peer)].places = *places[at(peer)];
    }
    const auto exchange = std::make_shared<ExchangeOnDemand>(
        std::make_unique<VerbsEnds>(*first().transport, second().transport, std::move(places)),
        size());
    for (const Rail& rail : rails_) {
      if (rail.transport != nullptr)
        rail.transport->ask_by([exchange](int peer) { exchange->want(peer); });
    }
    for (const int peer : first().choice.peers) result_.links[at(peer)].on_demand = exchange.get();
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
    return JobMember{.job = base::mix64(parts_.epoch ^ connection_requests),
                     .rank = parts_.rank,
                     .traffic_class = static_cast<int>(parts_.options.traffic_class)};
  }
  void ready() {
    const Deadline end = bootstrap::leaving_time_to_agree(*parts_.system, deadline_);
    for (const Rail& rail : rails_) {
      if (rail.transport != nullptr) rail.transport->make_ready(end, check_);
    }
  }

  // The paths to those peers.
  void probe(const auto& is_meant) {
    const Deadline end = bootstrap::leaving_time_to_agree(*parts_.system, deadline_);
    const auto for_each = [&](const auto& step) {
      for (const Rail& rail : rails_) {
        for (const int peer : rail.choice.peers) {
          if (is_meant(peer)) step(peer, rail);
        }
      }
    };
    for_each([&](int peer, const Rail& rail) {
      probe_path(connection_to(peer, rail), result_.links[at(peer)].places, &rail == &second());
    });
    for_each([&](int peer, const Rail& rail) { await_probe(peer, rail, end); });
  }

  void await_probe(int peer, const Rail& rail, Deadline end) const {
    VerbsConnection& connection = connection_to(peer, rail);
    while (!connection.is_probed() && connection.fault() == nullptr) {
      result_.transport->progress();
      result_.transport->poll_async_events();
      const Deadline now = parts_.system->now();
      base::ask_in_start(now, check_);
      if (now >= end) {
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
    for (const int peer : first().choice.peers) {
      std::unique_ptr<transport::Connection>& connection = result_.links[at(peer)].connection;
      connection = std::move(first().connections[at(peer)]);
      if (!second().choice.joins(peer)) continue;
      const messaging::PeerPlaces& places = result_.links[at(peer)].places;
      const auto name_of = [&](const Rail& rail) {
        const PortChoice& port = choice_.port_of(rail.choice);
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
  const base::StartCheck check_ = [this] { bootstrap_.check_ranks(); };
  VerbsRails choice_;
  std::array<Rail, 2> rails_{Rail{choice_.first()}, Rail{choice_.second()}};
  messaging::RingLayout layout_;
  std::vector<Blob> tests_;                 // by rank, of VerbsRails::test
  std::map<int, Notifications> relied_on_;  // by peer
  std::span<std::byte> memory_;  // slots, staging and mirrors, by index in the first rail's peers
  transport::RemoteAddress rings_;
  NetworkLinks result_;
};

// Of what a bring-up throws all ranks have the same, and may try another way, but for an error of
// the bootstrap itself: then there is nobody to try with. Who was interrupted wants no other try.
bool is_agreed(const Error& error, const base::System& system, Deadline deadline) {
  const ErrorCode code = error.code();
  return code != ErrorCode::peer_dead && code != ErrorCode::corrupt &&
         code != ErrorCode::bad_argument && code != ErrorCode::bad_config &&
         code != ErrorCode::aborted && system.now() < deadline;
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
