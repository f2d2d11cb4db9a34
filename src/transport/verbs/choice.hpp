// Which device, port and GID a rank uses: pure functions on plain data, the same on every rank. Each rank
// offers its best endpoints, all ranks see all offers, and everybody computes alike who uses which port and
// by which pair of GIDs two ranks connect.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "qpmesh/bootstrap.hpp"
#include "qpmesh/options.hpp"
#include "transport/connection.hpp"
#include "transport/verbs/facts.hpp"

namespace qpmesh::transport::verbs {

inline constexpr std::size_t endpoints_max = 8;  // of one offer

struct Subnet {
  Gid network;          // IPv4 mapped, host bits zero
  int prefix_bits = 0;  // of 128: 96 more than IPv4's
  bool contains(const Gid& address) const noexcept;
};

// What narrows or guides the choice. A wish that is not met leaves nothing to offer: it is never put aside.
struct Wishes {
  std::string device;  // "mlx5_0" or, with its port, "mlx5_0:1"; empty: any
  int gid_index = -1;  // -1: any
  std::string netdev;  // empty: any
  std::optional<Subnet> subnet;
  Gid bootstrap_address{};  // where the ranks met over TCP; zero: unknown. Its interface is preferred
  int numa_node = -1;       // of this rank; its devices are preferred
};

// The wishes of options device, gid_index, netdev and subnet. Throws Error{bad_config} when subnet cannot be read.
Wishes wishes_of(const Options& options);
// "10.0.0.0/8", "fd00::/16"; nothing for all other text.
std::optional<Subnet> parse_subnet(std::string_view text);

// Where a rank can be reached.
struct Endpoint {
  std::string device;
  int port = 1;
  LinkLayer link_layer = LinkLayer::ethernet;
  std::uint16_t lid = 0;
  bool grh_required = false;
  int gid_index = 0;
  Gid gid;
  GidType gid_type = GidType::roce_v2;
  std::string netdev;   // empty: unknown or none
  int prefix_bits = 0;  // of 128, of the GID's IP subnet; 0: unknown
  int mtu_bytes = 0;
  int responder_reads_max = 0;
  int initiator_reads_max = 0;
  bool software = false;
  int score = 0;
};
// One line for messages: "rxe0 port 1, GID 1 ::ffff:10.0.0.1 (RoCE v2, eth0), MTU 1024".
std::string to_string(const Endpoint& endpoint);

struct Offer {
  std::string host;
  std::vector<Endpoint> endpoints;  // best first, at most endpoints_max
  std::string cause;                // why there are none; empty when there are
  std::string hint;
};

// How one entry of a GID table fared, for those who ask why.
struct ScoreTerm {
  std::string_view name;  // "RoCE v2"
  int points = 0;
};
struct Judgement {
  std::size_t device = 0;  // indexes into the facts
  std::size_t port = 0;
  std::size_t gid = 0;
  std::string refused;  // why it is not offered; empty: it is
  std::vector<ScoreTerm> terms;
  int score = 0;  // the sum of the terms
};

// Every GID of every device: first those that can be offered, best first, then the refused ones in order.
std::vector<Judgement> judge(std::span<const DeviceFacts> devices, const Wishes& wishes);
Offer make_offer(std::span<const DeviceFacts> devices, const Wishes& wishes, std::string host);

Blob encode(const Offer& offer);
// Throws Error{corrupt} naming the peer.
Offer decode(BlobView blob, int peer);

// Two endpoints that can be connected, as indexes into the two offers.
struct Pair {
  int low = 0;  // of the lower rank's offer
  int high = 0;
  auto operator<=>(const Pair&) const = default;
};
struct Pairs {
  std::vector<Pair> pairs;  // best first: same IP subnet, then the lower rank's order, then the higher's
  std::string cause;        // why there are none
  std::string hint;
};
// Both ends call it alike, with the lower rank's offer first.
Pairs pairs(const Offer& low, const Offer& high);

// A rank's device and port: it uses one per context.
struct PortChoice {
  std::string device;
  int port = 0;  // 0: the rank offered nothing
  bool operator==(const PortChoice&) const = default;
};
// For every rank: the ports together that let most ranks reach each other, by the same subnet where that is
// possible, then the best scores. islands[r] is a number that ranks share who need no verbs between them (one
// node); empty: every rank needs every other. Deterministic; every rank computes the same.
std::vector<PortChoice> choose_ports(std::span<const Offer> offers, std::span<const int> islands);
// The endpoints of that port alone, in order.
Offer restrict_to(const Offer& offer, const PortChoice& choice);

// How receivers on this device learn of writes where nothing is said to the contrary.
struct DefaultNotification {
  Notification small = Notification::immediate;
  Notification medium = Notification::immediate;
  std::string_view reason;
};
DefaultNotification default_notification(const DeviceFacts& device, LinkLayer link_layer);

}  // namespace qpmesh::transport::verbs
