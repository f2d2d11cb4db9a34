// SPDX-License-Identifier: MIT
#include "transport/verbs/selection/pairing.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>

namespace qpmesh::transport::verbs::selection {
namespace {

// Why two endpoints cannot be connected, the most basic reason first.
enum class Mismatch : std::uint8_t {
  none,
  link_layer,
  fabric,
  gid_type,
  address_kind,
  same_gid,
  partition
};

struct MismatchRow {
  Mismatch mismatch;
  std::string_view reason;
  std::string_view hint;
};
constexpr std::array mismatch_table{
    MismatchRow{Mismatch::link_layer, "one side is InfiniBand, the other Ethernet",
                "choose devices of one kind on both hosts with QPMESH_DEVICE"},
    MismatchRow{Mismatch::fabric,
                "their InfiniBand subnets have different prefixes and no router between them",
                "choose ports of one fabric on both hosts with QPMESH_DEVICE"},
    MismatchRow{Mismatch::gid_type,
                "no common GID type: RoCE v1, RoCE v2 and iWARP do not understand each other",
                "let both devices offer RoCE v2 (mlx4: cma_roce_mode or the module option "
                "roce_mode=2), or choose entries of one type with QPMESH_GID_INDEX"},
    MismatchRow{Mismatch::address_kind, "no common address family",
                "give the RDMA interfaces of both hosts an IPv4 address of one network"},
    MismatchRow{Mismatch::same_gid, "two different devices hold the same GID",
                "give the RDMA interfaces different addresses"},
    MismatchRow{Mismatch::partition,
                "their partition keys are of different partitions, or neither has full membership",
                "choose one partition on both hosts with QPMESH_PKEY_INDEX: qpmesh-info shows the "
                "partition keys of each port"},
};

constexpr int infiniband_prefix_bits = 64;

bool same_subnet(const Endpoint& a, const Endpoint& b) noexcept {
  const int bits = std::max(a.prefix_bits, b.prefix_bits);
  return a.prefix_bits != 0 && b.prefix_bits != 0 && contains({a.gid, bits}, b.gid);
}

// The upper bit of a partition key says full membership. Two limited members cannot talk.
bool share_partition(const Endpoint& a, const Endpoint& b) noexcept {
  if (a.pkey == 0 || b.pkey == 0) return true;  // unknown
  return ((a.pkey ^ b.pkey) & 0x7fff) == 0 && ((a.pkey | b.pkey) & 0x8000) != 0;
}

Mismatch compare(const Endpoint& a, const Endpoint& b) noexcept {
  if (a.link_layer != b.link_layer) return Mismatch::link_layer;
  if (a.link_layer == LinkLayer::infiniband) {
    // The default prefix fe80::/64 is never routed.
    const auto routed = [](const Endpoint& each) { return kind_of(each.gid) == AddressKind::ipv6; };
    const bool reachable =
        contains({a.gid, infiniband_prefix_bits}, b.gid) || (routed(a) && routed(b));
    if (!reachable) return Mismatch::fabric;
    return share_partition(a, b) ? Mismatch::none : Mismatch::partition;
  }
  if (a.gid_type != b.gid_type) return Mismatch::gid_type;
  if (kind_of(a.gid) != kind_of(b.gid)) return Mismatch::address_kind;
  if (a.gid == b.gid && a.node_guid != b.node_guid) return Mismatch::same_gid;
  return share_partition(a, b) ? Mismatch::none : Mismatch::partition;
}

std::string listed(const Offer& offer) {
  std::vector<std::string> endpoints;
  for (const auto& endpoint : offer.endpoints) endpoints.push_back(to_string(endpoint));
  return fmt::format("{}", fmt::join(endpoints, "; "));
}

// Both ends' endpoints and every reason, with the hint of the pair that came nearest to working.
Explanation why_no_pair(const Offer& low, const Offer& high) {
  for (const auto& [host, endpoints, why] : {low, high}) {
    if (endpoints.empty())
      return {fmt::format("host {} offers no RDMA endpoint: {}", host, why.cause), why.hint};
  }
  std::set<Mismatch> mismatches;
  for (const auto& a : low.endpoints) {
    for (const auto& b : high.endpoints) mismatches.insert(compare(a, b));
  }
  std::vector<std::string_view> reasons;
  std::string hint;
  for (const auto& row : mismatch_table) {
    if (!mismatches.contains(row.mismatch)) continue;
    reasons.push_back(row.reason);
    hint = row.hint;
  }
  return {fmt::format("host {} ({}) and host {} ({}) have no GIDs that can be connected: {}",
                      low.host, listed(low), high.host, listed(high), fmt::join(reasons, "; ")),
          hint};
}

}  // namespace

Proximity proximity(const Endpoint& a, const Endpoint& b) noexcept {
  if (compare(a, b) != Mismatch::none) return Proximity::unreachable;
  return same_subnet(a, b) ? Proximity::same_subnet : Proximity::other_subnet;
}

Pairs pairs(const Offer& low, const Offer& high) {
  Pairs found;
  for (std::size_t i = 0; i < low.endpoints.size(); ++i) {
    for (std::size_t j = 0; j < high.endpoints.size(); ++j) {
      if (proximity(low.endpoints[i], high.endpoints[j]) != Proximity::unreachable)
        found.pairs.push_back({i, j});
    }
  }
  std::stable_partition(found.pairs.begin(), found.pairs.end(), [&](const Pair& pair) {
    return proximity(low.endpoints[pair.low], high.endpoints[pair.high]) == Proximity::same_subnet;
  });
  if (found.pairs.empty()) found.why_none = why_no_pair(low, high);
  return found;
}

Offer restrict_to(const Offer& offer, const PortChoice& choice) {
  Offer rest = offer;
  std::erase_if(rest.endpoints, [&](const Endpoint& each) {
    return each.device != choice.device || each.port != choice.port;
  });
  return rest;
}

Offer without(const Offer& offer, const PortChoice& choice) {
  Offer rest = offer;
  std::erase_if(rest.endpoints, [&](const Endpoint& each) {
    return each.device == choice.device && each.port == choice.port;
  });
  return rest;
}

}  // namespace qpmesh::transport::verbs::selection
