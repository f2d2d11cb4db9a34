// SPDX-License-Identifier: MIT
// What there is to know about RDMA devices before one is chosen, as plain data: discover() fills it
// in from the machine, tests from recorded tables.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace qpmesh::transport::verbs::selection {

// 16 bytes in network order. An IPv4 address is written as ::ffff:a.b.c.d, as RoCE does.
struct Gid {
  std::array<std::uint8_t, 16> bytes{};
  auto operator<=>(const Gid&) const = default;
};

// iwarp: what stands in the place of a GID, which iWARP has none of: an IP address of the port's
// interface.
enum class GidType : std::uint8_t { infiniband, roce_v1, roce_v2, iwarp };
enum class LinkLayer : std::uint8_t { unspecified, infiniband, ethernet };
enum class DeviceProtocol : std::uint8_t { infiniband, iwarp, other };  // infiniband: RoCE too

// What can talk to what: addresses of two kinds never meet.
enum class AddressKind : std::uint8_t { ipv4, ipv4_link_local, ipv6, ipv6_link_local };
AddressKind kind_of(const Gid& gid) noexcept;
bool is_ipv4(const Gid& gid) noexcept;

std::string_view to_string(GidType type) noexcept;
std::string_view to_string(LinkLayer layer) noexcept;
std::string to_string(const Gid& gid);     // "fe80::1", "::ffff:10.0.0.1"
std::string address_text(const Gid& gid);  // "fe80::1", "10.0.0.1"
// Its first so many bits, the rest zero.
Gid prefix_of(Gid gid, int bits) noexcept;

// Of what failed, for Error::cause and Error::hint.
struct Explanation {
  std::string cause{};
  std::string hint{};
  bool operator==(const Explanation&) const = default;
};

// An address of a network interface, IPv4 mapped as in a GID. prefix_bits: 24 of 10.0.0.1/24.
struct InterfaceAddress {
  Gid address{};
  int prefix_bits = 0;
};

// Empty entries of a port's table are not listed, so indexes may have holes.
struct GidFacts {
  int index = 0;
  Gid gid{};
  GidType type = GidType::infiniband;
  std::string netdev{};    // empty: none (InfiniBand), or not visible in this network namespace
  bool netdev_up = false;  // means nothing without a netdev
  std::vector<InterfaceAddress> addresses{};  // of the netdev
};

inline constexpr int port_active = 4;  // IBV_PORT_ACTIVE

struct PortFacts {
  int number = 0;            // from 1
  int state = 0;             // enum ibv_port_state
  std::string state_name{};  // "active", "down"
  LinkLayer link_layer = LinkLayer::unspecified;
  std::uint16_t lid = 0;  // InfiniBand's; 0 on Ethernet
  int mtu_bytes = 0;      // active
  std::uint32_t message_bytes_max = 0;
  std::int64_t rate_mbps = 0;  // 0: unknown
  bool grh_required = false;
  int traffic_class = -1;              // set by the system for RoCE v2; -1: none
  std::vector<std::uint16_t> pkeys{};  // by index; 0: the entry holds no partition
  std::vector<GidFacts> gids{};
};

// Enhanced connection establishment: abilities of a device beyond the standard, of which two queue
// pairs of one vendor's devices may agree on some. Only devices know what the options mean.
struct Ece {
  std::uint32_t vendor_id = 0;
  std::uint32_t options = 0;  // 0: the device offers none
  bool operator==(const Ece&) const = default;
};
// Whether queue pairs of two devices negotiate: both offer some, and one vendor made both.
constexpr bool can_negotiate(const Ece& one, const Ece& other) noexcept {
  return one.options != 0 && other.options != 0 && one.vendor_id == other.vendor_id;
}

struct DeviceFacts {
  std::string name{};    // "mlx5_0", "rxe0"
  std::string driver{};  // "mlx5_core", "rdma_rxe", "siw"; empty: unknown
  DeviceProtocol protocol = DeviceProtocol::infiniband;
  bool software = false;  // no hardware behind it: its queue pairs cost processor time
  std::uint32_t vendor_id = 0;
  std::uint32_t part_id = 0;
  std::uint64_t node_guid = 0;
  std::string firmware{};
  int queue_pairs_max = 0;
  int work_requests_max = 0;  // per queue
  int completions_max = 0;    // per completion queue
  int gather_max = 0;         // entries of one work request
  std::uint64_t region_bytes_max = 0;
  int responder_reads_max = 0;  // max_qp_rd_atom: RDMA reads a queue pair answers at once
  int initiator_reads_max = 0;  // max_qp_init_rd_atom: reads it may have under way
  int numa_node = -1;           // -1: unknown or none
  Ece ece{};                    // read by offered_ece (device.hpp), not by discover()
  std::string unreadable{};     // why the rest could not be read; empty: it could
  std::vector<PortFacts> ports{};
};

}  // namespace qpmesh::transport::verbs::selection
