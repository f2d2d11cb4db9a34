// SPDX-License-Identifier: MIT
// Which device, port and GID a rank uses: pure functions on plain data, the same on every rank.
// Each rank offers its best endpoints, all ranks see all offers, and everybody computes alike who
// uses which port and by which pair of GIDs two ranks connect (pairing.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qpmesh/bootstrap.hpp"
#include "qpmesh/options.hpp"
#include "transport/verbs/selection/facts.hpp"

namespace qpmesh::transport::verbs::selection {

inline constexpr std::size_t endpoints_max = 8;  // of one offer

struct Subnet {
  Gid network{};        // IPv4 mapped
  int prefix_bits = 0;  // of 128: 96 more than IPv4's
};
// "10.0.0.1", "fd00::1"; nothing for all other text.
std::optional<Gid> parse_address(const std::string& text);
// "10.0.0.0/8", "fd00::/16"; nothing for all other text.
std::optional<Subnet> parse_subnet(std::string_view text);
std::string to_string(const Subnet& subnet);
bool contains(const Subnet& subnet, const Gid& address) noexcept;

// What narrows or guides the choice. A wish that is not met leaves nothing to offer.
// For who has no libibverbs.
inline constexpr const char* rdma_packages_hint =
    "install libibverbs, librdmacm and the drivers of the devices (Debian: apt-get install "
    "libibverbs1 librdmacm1 ibverbs-providers)";

struct Wishes {
  std::string device{};    // empty: any
  int port = 0;            // 0: any
  int gid_index = -1;      // -1: any
  int traffic_class = -1;  // options of that name
  int service_level = 0;
  int flow_label = 0;
  int pkey_index = -1;
  std::string netdev{};  // empty: any
  std::optional<Subnet> subnet{};
  // Where the ranks met over TCP; zero: unknown. Its interface is preferred.
  Gid bootstrap_address{};
  int numa_node = -1;    // of this rank; its devices are preferred
  bool manager = false;  // the RDMA communication manager connects
  // Not a wish, but what may stand in the way of all: why libibverbs cannot be used; empty: it can.
  std::string ibverbs_missing{};
  int descriptors_error = 0;  // likewise: none is left to look for devices
};
// The wishes of the options device (a name, or name:port), gid_index, traffic_class, service_level,
// flow_label, pkey_index, netdev, subnet and connect.
// Throws Error{bad_config} when device or subnet cannot be read. bootstrap_address:
// Bootstrap::local_address, which may know none.
Wishes wishes_of(const Options& options, const std::string& bootstrap_address = {});

// Where a rank can be reached.
struct Endpoint {
  std::string device{};
  std::uint64_t node_guid = 0;  // of the device
  int port = 1;
  LinkLayer link_layer = LinkLayer::ethernet;
  std::uint16_t lid = 0;
  bool grh_required = false;
  int gid_index = 0;
  Gid gid{};
  GidType gid_type = GidType::roce_v2;
  std::string netdev{};  // empty: unknown or none
  int prefix_bits = 0;   // of 128, of the GID's subnet; 0: unknown, or a link-local GID
  int mtu_bytes = 0;     // a power of two, 256 to 4096
  int responder_reads_max = 0;
  int initiator_reads_max = 0;
  bool software = false;
  // Four fields of the endpoint's queue pairs. The first three are in every packet that these send:
  // requests, acknowledgements and answers to the peer's reads.
  std::uint8_t traffic_class = 0;
  std::uint8_t service_level = 0;
  std::uint32_t flow_label = 0;  // 0: the device derives it
  std::uint16_t pkey_index = 0;
  std::uint16_t pkey = 0;  // the partition key at that index; 0: unknown, or iWARP, which has none
  int score = 0;
  bool operator==(const Endpoint&) const = default;

  bool is_iwarp() const noexcept { return gid_type == GidType::iwarp; }
};
// For messages: "rxe0 port 1, GID 1 ::ffff:10.0.0.1 (RoCE v2, eth0), MTU 1024".
std::string to_string(const Endpoint& endpoint);

// What a rank tells all others.
struct Offer {
  std::string host{};
  std::vector<Endpoint> endpoints{};  // best first, at most endpoints_max
  Explanation why_none{};
  bool operator==(const Offer&) const = default;
};

// Why a GID is not offered, in the order of the checks.
enum class Refusal : std::uint8_t {
  none,
  other_device,  // wishes
  other_gid_index,
  other_netdev,
  other_subnet,
  wrong_protocol,  // health
  port_down,
  no_mtu,
  no_lid,
  index_too_large,
  zero_gid,
  wrong_gid_type,
  netdev_down,
  overlay,
  no_such_level,  // what the options ask for and the port does not have
  no_such_pkey,
};
struct ScoreTerm {
  std::string_view name{};  // "RoCE v2"
  int points = 0;
};
// How one entry of a GID table fared, for those who ask why.
struct Judgement {
  std::size_t device = 0;  // indexes into the facts
  std::size_t port = 0;
  std::size_t gid = 0;
  Refusal refusal = Refusal::none;
  Explanation why_refused{};
  std::vector<ScoreTerm> terms{};
  int score = 0;  // the sum of the terms
};

// Every GID of every device: those that can be offered, best first, then the refused ones in order.
std::vector<Judgement> judge(std::span<const DeviceFacts> devices, const Wishes& wishes);
// An interface of a container network: other hosts hold the same addresses, or cannot reach them.
bool is_overlay(std::string_view netdev) noexcept;
inline constexpr const char* other_device_hint =
    "set QPMESH_DEVICE to a device and port that qpmesh-info lists, or unset it";
std::string port_down_hint(std::string_view netdev);  // empty: unknown
// Returns the traffic class of an endpoint's packets, as UCX chooses it: `wished` unless that is
// -1. Else RoCE v2 has the port's own, or 106 (DSCP 26, ECN-capable), and all other GIDs have 0.
std::uint8_t traffic_class_of(const PortFacts& port, GidType type, int wished) noexcept;
// Returns the index of a partition key: `wished` unless that is -1. Else the first key with full
// membership, or the first key at all. Returns nothing where the table has no such entry, or the
// entry is 0. A port whose table is unknown (iWARP, an unreadable table) has index 0 alone.
std::optional<std::uint16_t> pkey_index_of(const PortFacts& port, int wished) noexcept;
// Throws Error{bad_config} with value and allowed range where no GID can be offered, and some port
// only lacks the service level or partition key of the wishes.
void require_port_values(std::span<const DeviceFacts> devices, const Wishes& wishes);
// The best GID of every port, then the next best ones, by score.
Offer make_offer(std::span<const DeviceFacts> devices, const Wishes& wishes, std::string host);

Blob encode(const Offer& offer);
// Throws Error{corrupt} naming the peer.
Offer decode(BlobView blob, int peer);

}  // namespace qpmesh::transport::verbs::selection
