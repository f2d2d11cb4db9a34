// SPDX-License-Identifier: MIT
#include "startup/tcp_bring_up.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/bytes.hpp"
#include "base/encryption.hpp"
#include "base/errors.hpp"
#include "bootstrap/agreement.hpp"
#include "bootstrap/listener.hpp"
#include "bootstrap/streams.hpp"
#include "messaging/rings/layout.hpp"
#include "messaging/rings/record.hpp"
#include "startup/network_rings.hpp"
#include "startup/tcp_on_demand.hpp"
#include "transport/tcp/frame.hpp"
#include "transport/tcp/transport.hpp"
#include "transport/verbs/selection/choice.hpp"

namespace qpmesh::startup {
namespace {

namespace selection = transport::verbs::selection;
using bootstrap::HostPort;
using bootstrap::InterfaceAddress;
using Token = std::array<std::byte, 16>;

// What every rank tells every other before they connect.
struct Calling {
  Token token{};  // known to ranks of this meeting only
  base::PublicKey public_key{};
  std::string listener;  // a Unix socket, for ranks of this network; may be empty
  std::vector<HostPort> addresses;
};

Blob encode(const Calling& calling) {
  base::ByteWriter writer;
  writer.put(calling.token).put(calling.public_key).put_text(calling.listener);
  Blob blob = std::move(writer).blob();
  const Blob addresses = bootstrap::encode_addresses(calling.addresses);
  blob.insert(blob.end(), addresses.begin(), addresses.end());
  return blob;
}

Calling decode(BlobView bytes, int rank) {
  base::ByteReader reader{bytes};
  Calling calling;
  calling.token = reader.get<Token>();
  calling.public_key = reader.get<base::PublicKey>();
  calling.listener = reader.get_text();
  if (!reader.ok() || calling.listener.size() > bootstrap::unix_name_bytes_max) {
    base::throw_error({ErrorCode::corrupt, rank}, "init", "",
                      "{} bytes do not say where the rank listens", bytes.size());
  }
  calling.addresses =
      bootstrap::read_addresses(bytes.subspan(sizeof(Token) + sizeof(base::PublicKey) +
                                              sizeof(std::uint32_t) + calling.listener.size()),
                                rank);
  return calling;
}

// Who names an interface or a network has all of its connections there, loopback and Unix sockets
// notwithstanding.
bool are_narrowed(const Options& options) {
  return !options.netdev.empty() || !options.subnet.empty();
}

// Those that the options ask for; else the one that the ranks met by, then all others. Loopback is
// for ranks of this network alone, and the first thing that they try.
std::vector<InterfaceAddress> candidates(const Options& options, const std::string& met_by,
                                         const base::System& system) {
  const auto subnet = selection::wishes_of(options, met_by).subnet;
  std::vector<InterfaceAddress> loopback;
  std::vector<InterfaceAddress> others;
  for (const InterfaceAddress& each : bootstrap::interfaces(system)) {
    const auto address = selection::parse_address(each.host);
    if (!options.netdev.empty() && each.netdev != options.netdev) continue;
    if (subnet && !(address && selection::contains(*subnet, *address))) continue;
    const auto numeric = bootstrap::numeric({each.host, 0});
    const bool loops = numeric && scope_of(*numeric) == bootstrap::Scope::loopback;
    (loops ? loopback : others).push_back(each);
  }
  std::stable_partition(others.begin(), others.end(),
                        [&](const auto& each) { return each.host == met_by; });
  loopback.insert(loopback.end(), others.begin(), others.end());
  if (!loopback.empty() || !are_narrowed(options)) return loopback;
  base::throw_error({ErrorCode::no_resource}, "init",
                    "ip address shows the interfaces and their addresses",
                    "no address of this host is allowed by QPMESH_NETDEV='{}' and "
                    "QPMESH_SUBNET='{}'",
                    options.netdev, options.subnet);
}

bool is_in_network_of(const InterfaceAddress& own, const std::string& host) {
  if (own.prefix_bits == 0) return false;  // its network is not known
  const auto network = selection::parse_subnet(fmt::format("{}/{}", own.host, own.prefix_bits));
  const auto address = selection::parse_address(host);
  return network && address && selection::contains(*network, *address);
}

// Of a rank's own addresses, the one in the network of the target; else the first of its family.
// From loopback no other host is reached.
bootstrap::Address source_for(std::span<const InterfaceAddress> own,
                              const bootstrap::Address& target) {
  const auto loops = [](const bootstrap::Address& address) {
    return scope_of(address) == bootstrap::Scope::loopback;
  };
  bootstrap::Address first;
  for (const InterfaceAddress& each : own) {
    const auto address = bootstrap::numeric({each.host, 0});
    if (!address || address->family() != target.family()) continue;
    if (loops(*address) && !loops(target)) continue;
    if (is_in_network_of(each, host_port(target).host)) return *address;
    if (first.bytes == 0) first = *address;
  }
  return first;
}

// What this rank's ends of connections are made of, in init or later.
struct OwnEnds {
  messaging::RingLayout layout;
  base::Log log;
  std::vector<std::byte*> slots{};           // of rings, by rank; nullptr: no peer
  std::vector<base::ConnectionKeys> keys{};  // by rank; empty: nothing is encrypted
  std::vector<bool> on_own_kernel{};         // by rank

  std::span<std::byte> slot_of(int rank) const {
    return {slots[static_cast<std::size_t>(rank)], layout.slot_bytes()};
  }
  transport::tcp::Joined make(const bootstrap::StreamPeer& peer, base::UniqueFd socket) const {
    const bool on_host = bootstrap::local_address(socket.get()).family() == AF_UNIX;
    const std::string where =
        on_host ? "over a Unix socket"
                : fmt::format("at {}", to_string(bootstrap::remote_address(socket.get())));
    const bool encrypts = !keys.empty() && !on_host;  // a Unix socket leaves no host
    log.debug("peer {}: tcp, {}{}", peer.rank, where, encrypts ? ", encrypted" : "");
    return {
        .peer = peer.rank,
        .peer_name =
            fmt::format("rank {} (pid {} on {}) {}", peer.rank, peer.pid, peer.host, where),
        .socket = std::move(socket),
        .window = slot_of(peer.rank),
        .one_kernel = on_own_kernel[static_cast<std::size_t>(peer.rank)],
        .keys = encrypts ? std::optional{keys[static_cast<std::size_t>(peer.rank)]} : std::nullopt};
  }
};

class Linking {
 public:
  Linking(Bootstrap& bootstrap, const Reach& reach, const context::ContextParts& parts,
          Deadline deadline)
      : bootstrap_{bootstrap},
        reach_{reach},
        parts_{parts},
        layout_{layout_for(static_cast<int>(parts.identities.size()), parts.options)},
        ends_{.layout = layout_, .log = parts.log},
        deadline_{deadline} {}
  // Of a bring-up that failed: connections go before their transport.
  ~Linking() { result_.links.clear(); }
  Linking(const Linking&) = delete;
  Linking& operator=(const Linking&) = delete;

  NetworkLinks run() {
    gather_addresses();
    bootstrap::Report report;
    report.attempt(parts_.rank, [&] { connect(report); });
    bootstrap::agree(bootstrap_, deadline_, report);
    return std::move(result_);
  }

 private:
  static std::size_t at(int rank) { return static_cast<std::size_t>(rank); }
  int size() const { return static_cast<int>(parts_.identities.size()); }
  const base::RankIdentity& about(int rank) const { return parts_.identities[at(rank)]; }
  bool is_peer_by(Way way, int rank) const {
    return rank != parts_.rank && reach_.way(parts_.rank, rank) == way;
  }
  bool has_peers_by(Way way) const {
    for (int peer = 0; peer < size(); ++peer) {
      if (is_peer_by(way, peer)) return true;
    }
    return false;
  }

  void gather_addresses() {
    const auto blobs = bootstrap::agree(bootstrap_, deadline_, [&] {
      Calling mine;
      parts_.system->random(mine.token);
      key_pair_ = base::make_key_pair(*parts_.system);
      mine.public_key = key_pair_.public_key;
      if (has_peers_by(Way::tcp)) listeners_ = listen();
      for (const base::UniqueFd& listener : listeners_)
        mine.addresses.push_back(host_port(bootstrap::local_address(listener.get())));
      if (has_peers_by(Way::tcp)) mine.listener = listen_on_host();
      return encode(mine);
    });
    base::ByteWriter tokens;
    for (int rank = 0; rank < size(); ++rank) {
      callings_.push_back(decode(blobs[at(rank)], rank));
      tokens.put(callings_.back().token);
    }
    tokens_ = std::move(tokens).blob();
  }

  std::vector<base::UniqueFd> listen() {
    own_ = candidates(parts_.options, bootstrap_.local_address(), *parts_.system);
    std::vector<std::string> hosts;
    hosts.reserve(own_.size());
    for (const InterfaceAddress& each : own_) hosts.push_back(each.host);
    return bootstrap::listen_at_hosts(
        std::move(hosts), bootstrap::parse_port_range(parts_.options.ports), parts_.rank,
        about(parts_.rank).host, *parts_.system, parts_.log);
  }

  // A Unix socket takes half of the time. Where there is none, TCP does it.
  std::string listen_on_host() {
    if (are_narrowed(parts_.options)) return {};
    std::string name = bootstrap::random_unix_name(*parts_.system);
    bootstrap::Opened opened = listen_at(*parts_.system, bootstrap::unix_address(name));
    if (!opened.socket) return {};
    listeners_.push_back(std::move(opened.socket));
    return name;
  }

  // What calls to a rank are proven with; see key_of_listener in bootstrap/links.hpp.
  static bootstrap::Key key_of(const Blob& tokens, int rank) {
    base::ByteWriter writer;
    writer.put(std::int32_t{rank});
    Blob all = std::move(writer).blob();
    all.insert(all.end(), tokens.begin(), tokens.end());
    return bootstrap::hash<sizeof(bootstrap::Key)>(all, "qpmesh data link, version 1");
  }

  // Both ends of a pair use the same, so it follows from what all ranks know.
  static messaging::RingLayout layout_for(int size, const Options& options) {
    const std::int64_t bytes = ring_bytes_for(size - 1, options.tcp_ring_bytes, full_tcp_rings_max);
    return {.payload_ring_units =
                static_cast<std::uint32_t>(bytes / std::int64_t{messaging::unit_bytes})};
  }

  void make_slots(std::span<const bootstrap::StreamPeer> peers) {
    const std::size_t bytes = layout_.slab_bytes(static_cast<int>(peers.size()));
    const auto offset = parts_.arena->allocate(bytes);
    if (!offset) {
      base::throw_error(
          {ErrorCode::no_resource}, "init",
          "raise QPMESH_ARENA_BYTES_MAX or lower QPMESH_TCP_RING_BYTES",
          "for the rings of {} ranks the arena has no {} bytes left in one piece, of {} in all",
          peers.size(), bytes, parts_.arena->bytes());
    }
    ends_.slots.resize(at(size()));
    for (std::size_t i = 0; i < peers.size(); ++i)
      ends_.slots[at(peers[i].rank)] =
          parts_.arena->data() + *offset + layout_.slot_offset(static_cast<int>(i));
  }

  // Where a peer is called, in this order. The way to it follows from the network that it is in: a
  // source in another one would not hold the packets.
  std::vector<HostPort> addresses_of(int peer, bool on_host) const {
    std::vector<HostPort> all = bootstrap::reachable(callings_[at(peer)].addresses, on_host);
    if (!are_narrowed(parts_.options)) return all;
    std::stable_partition(all.begin(), all.end(), [&](const HostPort& there) {
      return std::ranges::any_of(
          own_, [&](const auto& own) { return is_in_network_of(own, there.host); });
    });
    return all;
  }

  void connect(bootstrap::Report& report) {
    ends_.keys = make_keys();
    for (const base::RankIdentity& each : parts_.identities)
      ends_.on_own_kernel.push_back(each.place.boot_id == about(parts_.rank).place.boot_id);
    std::vector<bootstrap::StreamPeer> peers;
    for (int peer = 0; peer < size(); ++peer) {
      if (!is_peer_by(Way::tcp, peer)) continue;
      const bool on_host = same_network(about(peer).place, about(parts_.rank).place);
      peers.push_back(
          {.rank = peer,
           .pid = about(peer).pid,
           .host = about(peer).host,
           .kind = on_host ? bootstrap::StreamKind::either : bootstrap::StreamKind::tcp,
           .listener = on_host && !are_narrowed(parts_.options) ? callings_[at(peer)].listener : "",
           .addresses = addresses_of(peer, on_host)});
    }
    if (!peers.empty()) make_slots(peers);
    auto transport = std::make_unique<transport::tcp::TcpTransport>(
        *parts_.system, transport::tcp::Settings{
                            .inline_bytes_max = inline_bytes_max(),
                            .silence_ms_max = parts_.options.link_timeout_ms == 0
                                                  ? transport::tcp::Settings{}.silence_ms_max
                                                  : parts_.options.link_timeout_ms,
                            .beside_others = has_peers_by(Way::shm) || has_peers_by(Way::verbs)});
    transport_ = transport.get();
    result_.transport = std::move(transport);
    result_.links.resize(at(size()));
    if (!peers.empty()) {
      parts_.log.info("tcp: rings of {} bytes for each of {} peers, taken as messages lie there",
                      layout_.slot_bytes(), peers.size());
    }
    bootstrap::StreamSettings settings{
        .rank = parts_.rank,
        .size = size(),
        .pid = about(parts_.rank).pid,
        .host = about(parts_.rank).host,
        .key = [tokens = tokens_](int rank) { return key_of(tokens, rank); },
        .handshake_timeout_ms = parts_.options.handshake_timeout_ms,
        .deadline = bootstrap::leaving_time_to_agree(*parts_.system, deadline_),
        .check = [this] { bootstrap_.check_ranks(); }};
    if (are_narrowed(parts_.options)) {
      settings.source = [own = own_](const bootstrap::Address& target) {
        return source_for(own, target);
      };
    }
    if (parts_.options.connect_when == ConnectWhen::first_use)
      return connect_later(std::move(settings), std::move(peers));
    connect_streams(
        settings, std::move(listeners_), peers,
        [&](const bootstrap::StreamPeer& peer, bootstrap::FrameStream& stream,
            bootstrap::Descriptors&) { add(ends_.make(peer, stream.release())); },
        report, *parts_.system, parts_.log);
  }

  void connect_later(bootstrap::StreamSettings settings, std::vector<bootstrap::StreamPeer> peers) {
    if (peers.empty()) return;
    std::vector<transport::tcp::Joined> joined;
    joined.reserve(peers.size());
    for (const bootstrap::StreamPeer& peer : peers)
      joined.push_back({.peer = peer.rank, .window = ends_.slot_of(peer.rank)});
    auto connector = std::make_unique<TcpOnDemand>(
        *transport_, std::move(settings), std::move(listeners_), std::move(peers),
        parts_.options.init_timeout_ms,
        [ends = ends_](const bootstrap::StreamPeer& peer, base::UniqueFd socket) {
          return ends.make(peer, std::move(socket));
        },
        *parts_.system, parts_.log);
    TcpOnDemand* const on_demand = connector.get();
    transport_->connect_by(std::move(connector));
    for (transport::tcp::Joined& each : joined) {
      const int peer = each.peer;
      add(std::move(each));
      result_.links[at(peer)].on_demand = on_demand;
    }
  }

  // Of a payload that messaging wants back at once: a whole eager message, or a segment.
  std::size_t inline_bytes_max() const {
    const std::size_t quarter = layout_.payload_ring_units * messaging::unit_bytes / 4;
    const std::int64_t wanted = parts_.options.eager_bytes_max;
    const std::size_t eager =
        wanted < 0 ? transport::tcp::eager_step_bytes_max : static_cast<std::size_t>(wanted);
    return std::max({std::min(quarter, eager), messaging::segment_bytes_limit,
                     std::size_t{messaging::record_length_max}});
  }

  // Of each peer over TCP, by rank; nothing where they are not encrypted.
  std::vector<base::ConnectionKeys> make_keys() const {
    std::vector<base::ConnectionKeys> keys;
    if (!parts_.options.encrypt) return keys;
    keys.resize(at(size()));
    for (int peer = 0; peer < size(); ++peer) {
      if (!is_peer_by(Way::tcp, peer)) continue;
      const auto agreed = base::agree_on_keys(key_pair_, callings_[at(peer)].public_key);
      if (!agreed) {
        base::throw_error({ErrorCode::authentication, peer}, "init",
                          "no correct rank does that: start every rank with the same qpmesh",
                          "rank {} told a public key that no rank has", peer);
      }
      keys[at(peer)] = *agreed;
    }
    return keys;
  }

  void add(transport::tcp::Joined joined) {
    const int peer = joined.peer;
    const std::span<std::byte> slot = joined.window;
    result_.links[at(peer)] = {
        .connection = transport_->connect(std::move(joined)),
        .places = {.transport = transport_,
                   .connection = nullptr,
                   .layout = layout_,
                   .slot = slot.data(),
                   .remote_slot = {.region = transport::tcp::Regions::window, .offset = 0},
                   .remote_revocations = {},
                   .staging = {}}};
  }

  Bootstrap& bootstrap_;
  const Reach& reach_;
  const context::ContextParts& parts_;
  const messaging::RingLayout layout_;
  OwnEnds ends_;
  Deadline deadline_;
  std::vector<InterfaceAddress> own_;  // that it may use
  std::vector<base::UniqueFd> listeners_;
  base::KeyPair key_pair_;
  std::vector<Calling> callings_;  // by rank
  Blob tokens_;                    // of all ranks
  transport::tcp::TcpTransport* transport_ = nullptr;
  NetworkLinks result_;
};

}  // namespace

NetworkLinks link_tcp(Bootstrap& bootstrap, const Reach& reach, const context::ContextParts& parts,
                      Deadline deadline) {
  if (!reach.any(Way::tcp)) return {};
  return Linking{bootstrap, reach, parts, deadline}.run();
}

}  // namespace qpmesh::startup
