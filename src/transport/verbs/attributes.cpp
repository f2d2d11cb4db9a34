// SPDX-License-Identifier: MIT
#include "transport/verbs/attributes.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <limits>

namespace qpmesh::transport::verbs {
namespace {

// 0 becomes an IP time to live of 0 on rxe, and 1 cannot be routed.
constexpr std::uint8_t hop_limit = 64;

constexpr std::size_t subnet_prefix_bytes = 8;  // of an InfiniBand GID; the rest is the port's GUID

bool same_subnet_prefix(const selection::Gid& a, const selection::Gid& b) noexcept {
  return std::memcmp(a.bytes.data(), b.bytes.data(), subnet_prefix_bytes) == 0;
}

// IBV_MTU_256 is 1, and each further one doubles.
ibv_mtu encode_mtu(int bytes) noexcept {
  assert(bytes >= 256 && bytes <= 4096);
  return static_cast<ibv_mtu>(std::bit_width(static_cast<unsigned>(bytes)) - 8);
}

// Reads that one end may have under way and the other answers at once. 0 would refuse every read.
std::uint8_t reads_max(int initiator, int responder) noexcept {
  constexpr int highest = std::numeric_limits<std::uint8_t>::max();
  return static_cast<std::uint8_t>(std::clamp(std::min(initiator, responder), 1, highest));
}

}  // namespace

ibv_ah_attr route_to(const selection::Endpoint& local, const selection::Endpoint& peer) {
  ibv_ah_attr route{};
  route.port_num = static_cast<std::uint8_t>(local.port);
  route.sl = local.service_level;
  const bool infiniband = local.link_layer == selection::LinkLayer::infiniband;
  if (infiniband) route.dlid = peer.lid;
  if (!infiniband || local.grh_required || peer.grh_required ||
      !same_subnet_prefix(local.gid, peer.gid)) {
    route.is_global = 1;
    std::memcpy(route.grh.dgid.raw, peer.gid.bytes.data(), peer.gid.bytes.size());
    route.grh.sgid_index = static_cast<std::uint8_t>(local.gid_index);
    route.grh.hop_limit = hop_limit;
    route.grh.traffic_class = local.traffic_class;
    route.grh.flow_label = local.flow_label;
  }
  return route;
}

Attributes to_init(const selection::Endpoint& local, unsigned access) {
  Attributes attributes;
  attributes.values.qp_state = IBV_QPS_INIT;
  attributes.values.pkey_index = local.pkey_index;
  attributes.values.port_num = static_cast<std::uint8_t>(local.port);
  attributes.values.qp_access_flags = access;
  attributes.mask = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS;
  if (!local.is_iwarp())  // which has no partitions
    attributes.mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT;
  return attributes;
}

Attributes to_rtr(const diagnosis::LinkDescription& link) {
  const auto& [local, peer, timers] = link;
  Attributes attributes;
  attributes.values.qp_state = IBV_QPS_RTR;
  attributes.values.ah_attr = route_to(local.endpoint, peer.endpoint);
  attributes.values.path_mtu = encode_mtu(selection::path_mtu_bytes(local.endpoint, peer.endpoint));
  attributes.values.dest_qp_num = peer.qpn;
  attributes.values.rq_psn = peer.psn;
  attributes.values.max_dest_rd_atomic =
      reads_max(peer.endpoint.initiator_reads_max, local.endpoint.responder_reads_max);
  attributes.values.min_rnr_timer = timers.min_rnr_timer;
  attributes.mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  return attributes;
}

Attributes to_rts(const diagnosis::LinkDescription& link) {
  const auto& [local, peer, timers] = link;
  Attributes attributes;
  attributes.values.qp_state = IBV_QPS_RTS;
  attributes.values.sq_psn = local.psn;
  attributes.values.timeout = timers.timeout;
  attributes.values.retry_cnt = timers.retry_count;
  attributes.values.rnr_retry = timers.rnr_retry;
  attributes.values.max_rd_atomic =
      reads_max(local.endpoint.initiator_reads_max, peer.endpoint.responder_reads_max);
  attributes.mask = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                    IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  return attributes;
}

Attributes keep_to_link(const Attributes& by_cm, const diagnosis::LinkDescription& link) {
  Attributes kept = by_cm;
  ibv_qp_attr& values = kept.values;
  const ibv_qp_attr own = (values.qp_state == IBV_QPS_RTR ? to_rtr(link) : to_rts(link)).values;
  if (values.qp_state == IBV_QPS_RTR) {
    const ibv_global_route& wished = own.ah_attr.grh;
    if (values.ah_attr.grh.traffic_class == 0)
      values.ah_attr.grh.traffic_class = wished.traffic_class;
    if (wished.flow_label != 0) values.ah_attr.grh.flow_label = wished.flow_label;
    if (own.ah_attr.sl != 0) values.ah_attr.sl = own.ah_attr.sl;
    values.path_mtu = std::min(values.path_mtu, own.path_mtu);
    values.max_dest_rd_atomic = own.max_dest_rd_atomic;
    values.min_rnr_timer = own.min_rnr_timer;
  } else {
    values.timeout = own.timeout;
    values.retry_cnt = own.retry_cnt;
    values.rnr_retry = own.rnr_retry;
    values.max_rd_atomic = own.max_rd_atomic;
  }
  return kept;
}

}  // namespace qpmesh::transport::verbs
