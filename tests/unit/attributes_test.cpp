// SPDX-License-Identifier: MIT
// What a queue pair is told on its way to RTS, for RoCE and InfiniBand.
#include "transport/verbs/attributes.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <net/if.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "support/device_tables.hpp"
#include "transport/verbs/cm_request.hpp"

namespace qpmesh::transport::verbs {
namespace {

using namespace selection;

using diagnosis::LinkEnd;

using test::gid;

Endpoint roce(const char* address, int index, GidType type = GidType::roce_v2) {
  return {.device = "mlx5_0",
          .port = 2,
          .link_layer = LinkLayer::ethernet,
          .gid_index = index,
          .gid = gid(address),
          .gid_type = type,
          .mtu_bytes = 4096,
          .responder_reads_max = 16,
          .initiator_reads_max = 16};
}
Endpoint infiniband(const char* address, std::uint16_t lid, bool grh_required = false) {
  return {.device = "mlx5_0",
          .port = 1,
          .link_layer = LinkLayer::infiniband,
          .lid = lid,
          .grh_required = grh_required,
          .gid_index = 0,
          .gid = gid(address),
          .gid_type = GidType::infiniband,
          .mtu_bytes = 2048,
          .responder_reads_max = 16,
          .initiator_reads_max = 16};
}
bool goes_to(const ibv_ah_attr& route, const char* address) {
  return std::ranges::equal(route.grh.dgid.raw, gid(address).bytes);
}

TEST(init, opens_the_port_of_the_endpoint_with_the_access_that_was_asked_for) {
  const auto [values, mask] =
      to_init(roce("10.0.0.1", 3), IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
  EXPECT_EQ(mask, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  EXPECT_EQ(values.qp_state, IBV_QPS_INIT);
  EXPECT_EQ(values.port_num, 2);
  EXPECT_EQ(values.pkey_index, 0);
  EXPECT_EQ(values.qp_access_flags,
            static_cast<unsigned>(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ));
}

TEST(init, asks_iwarp_for_nothing_but_the_access) {
  const auto mask = to_init(roce("10.0.0.1", 0, GidType::iwarp), IBV_ACCESS_REMOTE_WRITE).mask;
  EXPECT_EQ(mask, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS);
}

TEST(rtr, over_roce_addresses_the_peers_gid_and_nothing_of_infiniband) {
  for (const auto type : {GidType::roce_v1, GidType::roce_v2}) {
    const LinkEnd local{"", roce("10.0.0.1", 3, type), 0x11, 0xabc};
    const LinkEnd peer{"", roce("10.0.0.2", 5, type), 0x22, 0xdef};
    const auto [values, mask] = to_rtr({local, peer, {}});
    EXPECT_EQ(mask, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                        IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    EXPECT_EQ(values.qp_state, IBV_QPS_RTR);
    EXPECT_EQ(values.dest_qp_num, 0x22U);
    EXPECT_EQ(values.rq_psn, 0xdefU) << "what the peer sends first";
    EXPECT_EQ(values.min_rnr_timer, 12);
    EXPECT_EQ(values.ah_attr.port_num, 2);
    EXPECT_EQ(values.ah_attr.is_global, 1);
    EXPECT_TRUE(goes_to(values.ah_attr, "10.0.0.2"));
    EXPECT_EQ(values.ah_attr.grh.sgid_index, 3) << "our own table's index";
    EXPECT_EQ(values.ah_attr.grh.hop_limit, 64);
    EXPECT_EQ(values.ah_attr.dlid, 0);
    EXPECT_EQ(values.ah_attr.sl, 0);
  }
}

TEST(init, takes_the_partition_key_of_the_endpoint) {
  Endpoint local = infiniband("fe80::1", 4);
  local.pkey_index = 3;
  const auto [values, mask] = to_init(local, IBV_ACCESS_REMOTE_WRITE);
  EXPECT_NE(mask & IBV_QP_PKEY_INDEX, 0);
  EXPECT_EQ(values.pkey_index, 3);
}

TEST(rtr, gives_packets_the_class_level_and_label_of_the_local_end_and_none_of_the_peers) {
  Endpoint local = roce("10.0.0.1", 3);
  Endpoint peer = roce("10.0.0.2", 5);
  local.traffic_class = 106;
  local.service_level = 3;
  local.flow_label = 0xabcde;
  peer.traffic_class = 96;
  peer.service_level = 4;
  peer.flow_label = 0x12345;
  const ibv_ah_attr there = to_rtr({{"", local}, {"", peer}, {}}).values.ah_attr;
  EXPECT_EQ(there.grh.traffic_class, 106);
  EXPECT_EQ(there.sl, 3);
  EXPECT_EQ(there.grh.flow_label, 0xabcdeU);
  const ibv_ah_attr back = to_rtr({{"", peer}, {"", local}, {}}).values.ah_attr;
  EXPECT_EQ(back.grh.traffic_class, 96);
  EXPECT_EQ(back.sl, 4);
  EXPECT_EQ(back.grh.flow_label, 0x12345U);
}

TEST(rtr, within_an_infiniband_subnet_has_a_service_level_without_a_grh) {
  Endpoint local = infiniband("fe80::1", 4);
  local.service_level = 12;
  const auto route = route_to(local, infiniband("fe80::2", 9));
  EXPECT_EQ(route.is_global, 0);
  EXPECT_EQ(route.sl, 12);
}

TEST(rtr, within_an_infiniband_subnet_needs_the_lid_alone) {
  const auto route = route_to(infiniband("fe80::1", 4), infiniband("fe80::2", 9));
  EXPECT_EQ(route.dlid, 9);
  EXPECT_EQ(route.is_global, 0);
  EXPECT_EQ(route.port_num, 1);
}

TEST(rtr, over_infiniband_carries_a_grh_where_either_port_requires_it) {
  for (const auto& [local_needs, peer_needs] :
       {std::pair{true, false}, {false, true}, {true, true}}) {
    const auto route =
        route_to(infiniband("fe80::1", 4, local_needs), infiniband("fe80::2", 9, peer_needs));
    EXPECT_EQ(route.dlid, 9);
    EXPECT_EQ(route.is_global, 1);
    EXPECT_TRUE(goes_to(route, "fe80::2"));
    EXPECT_EQ(route.grh.sgid_index, 0);
    EXPECT_EQ(route.grh.hop_limit, 64);
  }
}

TEST(rtr, between_infiniband_subnets_carries_a_grh) {
  const auto route = route_to(infiniband("fec0:0:0:1::1", 4), infiniband("fec0:0:0:2::2", 9));
  EXPECT_EQ(route.is_global, 1);
  EXPECT_TRUE(goes_to(route, "fec0:0:0:2::2"));
}

TEST(rtr, uses_the_smaller_mtu_of_the_two_ports) {
  constexpr std::pair<int, ibv_mtu> mtus[]{{256, IBV_MTU_256},
                                           {512, IBV_MTU_512},
                                           {1024, IBV_MTU_1024},
                                           {2048, IBV_MTU_2048},
                                           {4096, IBV_MTU_4096}};
  for (const auto& [mine, my_code] : mtus) {
    for (const auto& [theirs, their_code] : mtus) {
      LinkEnd local{"", roce("10.0.0.1", 3)};
      LinkEnd peer{"", roce("10.0.0.2", 3)};
      local.endpoint.mtu_bytes = mine;
      peer.endpoint.mtu_bytes = theirs;
      EXPECT_EQ(to_rtr({local, peer, {}}).values.path_mtu, std::min(my_code, their_code));
      EXPECT_EQ(path_mtu_bytes(local.endpoint, peer.endpoint), std::min(mine, theirs));
    }
  }
}

TEST(reads, under_way_are_what_both_ends_can_and_never_none) {
  LinkEnd local{"", roce("10.0.0.1", 3)};
  LinkEnd peer{"", roce("10.0.0.2", 3)};
  local.endpoint.initiator_reads_max = 8;
  local.endpoint.responder_reads_max = 128;
  peer.endpoint.initiator_reads_max = 4;
  peer.endpoint.responder_reads_max = 16;
  EXPECT_EQ(to_rts({local, peer, {}}).values.max_rd_atomic, 8);
  EXPECT_EQ(to_rtr({local, peer, {}}).values.max_dest_rd_atomic, 4);
  EXPECT_EQ(to_rts({peer, local, {}}).values.max_rd_atomic, 4)
      << "what one end starts the other answers";
  EXPECT_EQ(to_rtr({peer, local, {}}).values.max_dest_rd_atomic, 8);

  peer.endpoint.responder_reads_max = 0;
  EXPECT_EQ(to_rts({local, peer, {}}).values.max_rd_atomic, 1);
  local.endpoint.initiator_reads_max = peer.endpoint.responder_reads_max = 1000;
  EXPECT_EQ(to_rts({local, peer, {}}).values.max_rd_atomic, 255);
}

TEST(rts, starts_with_our_own_packet_number_and_the_timers) {
  const LinkEnd local{"", roce("10.0.0.1", 3), 0x11, 0xabc};
  const LinkEnd peer{"", roce("10.0.0.2", 5), 0x22, 0xdef};
  const auto [values, mask] = to_rts({local, peer, timers_for(local.endpoint, 0)});
  EXPECT_EQ(mask, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                      IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
  EXPECT_EQ(values.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(values.sq_psn, 0xabcU);
  EXPECT_EQ(values.timeout, 15);
  EXPECT_EQ(values.retry_cnt, 7);
  EXPECT_EQ(values.rnr_retry, 6);
}

TEST(the_communication_manager, gives_route_and_numbers_and_this_library_timers_and_reads) {
  LinkEnd local{"", roce("10.0.0.1", 3), 0x11, 0xabc};
  const LinkEnd peer{"", roce("10.0.0.2", 5), 0x22, 0xdef};
  local.endpoint.mtu_bytes = 1024;
  const diagnosis::LinkDescription link{local, peer, timers_for(local.endpoint, 0)};
  Attributes told;
  told.mask = 0x1234;
  told.values.qp_state = IBV_QPS_RTR;
  told.values.path_mtu = IBV_MTU_4096;
  told.values.rq_psn = 0x777;
  told.values.dest_qp_num = 0x22;
  told.values.ah_attr.grh.sgid_index = 7;
  const Attributes rtr = keep_to_link(told, link);
  EXPECT_EQ(rtr.mask, 0x1234);
  EXPECT_EQ(rtr.values.rq_psn, 0x777U);
  EXPECT_EQ(rtr.values.dest_qp_num, 0x22U);
  EXPECT_EQ(rtr.values.ah_attr.grh.sgid_index, 7);
  EXPECT_EQ(rtr.values.path_mtu, IBV_MTU_1024) << "the caller's interface has longer packets";
  EXPECT_EQ(rtr.values.min_rnr_timer, link.timers.min_rnr_timer) << "0 would be 655 ms";
  EXPECT_EQ(rtr.values.max_dest_rd_atomic, 16);
  told.values.path_mtu = IBV_MTU_512;
  EXPECT_EQ(keep_to_link(told, link).values.path_mtu, IBV_MTU_512);

  told.values.qp_state = IBV_QPS_RTS;
  told.values.sq_psn = 0x888;
  told.values.timeout = 19;
  const Attributes rts = keep_to_link(told, link);
  EXPECT_EQ(rts.values.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(rts.values.sq_psn, 0x888U);
  EXPECT_EQ(rts.values.timeout, link.timers.timeout);
  EXPECT_EQ(rts.values.retry_cnt, 7);
  EXPECT_EQ(rts.values.rnr_retry, 6);
  EXPECT_EQ(rts.values.max_rd_atomic, 16);
}

TEST(the_communication_manager,
     keeps_its_class_and_level_where_it_has_some_and_takes_ours_elsewhere) {
  LinkEnd local{"", roce("10.0.0.1", 3), 0x11, 0xabc};
  const LinkEnd peer{"", roce("10.0.0.2", 5), 0x22, 0xdef};
  local.endpoint.traffic_class = 106;
  const auto kept = [&](std::uint8_t traffic_class, std::uint8_t level) {
    Attributes told;
    told.values.qp_state = IBV_QPS_RTR;
    told.values.ah_attr.grh.traffic_class = traffic_class;
    told.values.ah_attr.sl = level;
    return keep_to_link(told, {local, peer, timers_for(local.endpoint, 0)}).values.ah_attr;
  };
  EXPECT_EQ(kept(0, 0).grh.traffic_class, 106) << "the default of RoCE v2";
  EXPECT_EQ(kept(96, 3).grh.traffic_class, 96) << "what the system sets for the manager";
  EXPECT_EQ(kept(96, 3).sl, 3) << "which follows from its class";
  local.endpoint.service_level = 5;
  local.endpoint.flow_label = 7;
  EXPECT_EQ(kept(96, 3).sl, 5);
  EXPECT_EQ(kept(96, 3).grh.flow_label, 7U);
}

TEST(a_request, is_read_back_from_padded_bytes_and_not_from_fewer) {
  const CmRequest request{.job = 0x1122334455667788U, .caller = 3, .called = 1'000'000};
  const auto bytes = encode(request);
  EXPECT_EQ(decode_cm_request(bytes), request);
  std::array<std::byte, 56> padded{};
  std::ranges::copy(bytes, padded.begin());
  EXPECT_EQ(decode_cm_request(padded), request);
  for (std::size_t count = 0; count < bytes.size(); ++count)
    EXPECT_FALSE(decode_cm_request(std::span{bytes}.first(count))) << count;
}

TEST(a_request, goes_to_the_address_that_the_gid_was_made_from) {
  const sockaddr_storage four = socket_address(gid("10.1.2.3"), 4242, "");
  sockaddr_in ipv4{};
  std::memcpy(&ipv4, &four, sizeof ipv4);
  EXPECT_EQ(ipv4.sin_family, AF_INET);
  EXPECT_EQ(ntohs(ipv4.sin_port), 4242);
  EXPECT_EQ(ntohl(ipv4.sin_addr.s_addr), 0x0a010203U);

  for (const auto& [text, scope] :
       {std::pair{"fd00::7", 0U}, std::pair{"fe80::7", ::if_nametoindex("lo")}}) {
    const sockaddr_storage six = socket_address(gid(text), 1, "lo");
    sockaddr_in6 ipv6{};
    std::memcpy(&ipv6, &six, sizeof ipv6);
    EXPECT_EQ(ipv6.sin6_family, AF_INET6);
    EXPECT_EQ(ntohs(ipv6.sin6_port), 1);
    EXPECT_TRUE(std::ranges::equal(ipv6.sin6_addr.s6_addr, gid(text).bytes));
    EXPECT_EQ(ipv6.sin6_scope_id, scope) << text;
  }
}

TEST(timers, of_an_adapter_never_try_for_ever) {
  const auto endpoint = roce("10.0.0.1", 3);
  for (const std::int64_t ms : {0, 1, 100, 1'000, 10'000, 600'000}) {
    const auto timers = timers_for(endpoint, ms);
    EXPECT_EQ(timers.retry_count, 7);
    EXPECT_EQ(timers.rnr_retry, 6);
    EXPECT_GE(timers.timeout, 1) << "0 means for ever";
    EXPECT_LE(timers.timeout, 31);
    EXPECT_EQ(timers.silence_ms_max, 0) << "it gives up by itself";
  }
}

// rxe takes seven tries for ever, and would use up six where packets come out of order.
TEST(timers, of_a_software_device_leave_giving_up_to_the_connection) {
  auto endpoint = roce("10.0.0.1", 3);
  endpoint.software = true;
  for (const std::int64_t ms : {0, 1, 100, 1'000, 10'000, 600'000}) {
    const auto timers = timers_for(endpoint, ms);
    EXPECT_EQ(timers.retry_count, 7);
    EXPECT_EQ(timers.silence_ms_max, ms == 0 ? 8'000 : ms);
    EXPECT_GE(timers.timeout, 1);
    EXPECT_LE(timers.timeout, 15) << "a lost packet is sent again after 134 ms at most";
  }
  EXPECT_EQ(timers_for(endpoint, 0).timeout, 15);
  EXPECT_EQ(timers_for(endpoint, 100).timeout, 11)
      << "several tries in the time that was asked for";
}

TEST(timers, give_up_after_the_time_that_was_asked_for_and_before_twice_of_it) {
  auto endpoint = roce("10.0.0.1", 3);
  for (const bool software : {false, true}) {
    endpoint.software = software;
    for (const std::int64_t ms : {1, 100, 1'000, 10'000, 600'000}) {
      const auto given_up = give_up_ms(timers_for(endpoint, ms));
      EXPECT_GE(given_up, ms);
      EXPECT_LE(given_up, 2 * ms);
    }
  }
}

TEST(timers, give_up_after_a_second_by_default_and_outlast_a_pause_of_five_over_a_software_device) {
  auto endpoint = roce("10.0.0.1", 3);
  EXPECT_EQ(give_up_ms(timers_for(endpoint, 0)), 1073);
  endpoint.software = true;
  EXPECT_EQ(give_up_ms(timers_for(endpoint, 0)), 8'000);
}

TEST(timers, of_iwarp_leave_giving_up_to_the_connection_as_those_of_a_software_device) {
  const auto endpoint = roce("10.0.0.1", 0, GidType::iwarp);
  EXPECT_EQ(timers_for(endpoint, 0).silence_ms_max, 8'000);
  EXPECT_EQ(timers_for(endpoint, 1'000).silence_ms_max, 1'000);
}

TEST(heartbeat, asks_an_idle_link_well_within_the_time_after_which_it_has_failed) {
  auto endpoint = roce("10.0.0.1", 3);
  for (const std::int64_t ms : {0, 1, 100, 1'000, 600'000}) {
    const auto timers = timers_for(endpoint, ms);
    EXPECT_GE(heartbeat_ms(timers), 1);
    EXPECT_LE(heartbeat_ms(timers), std::max<std::int64_t>(give_up_ms(timers) / 8, 1));
  }
}

}  // namespace
}  // namespace qpmesh::transport::verbs
