// SPDX-License-Identifier: MIT
// How ranks agree on ports and pairs of GIDs, from offers of recorded machines.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "support/device_tables.hpp"
#include "transport/verbs/selection/pairing.hpp"
#include "transport/verbs/selection/rules.hpp"

namespace qpmesh::transport::verbs::selection {
namespace {

using test::devices;
using test::gid;
using ::testing::AllOf;
using ::testing::HasSubstr;

Offer offer(const char* host, const std::string& table, const Wishes& wishes = {}) {
  return make_offer(devices(table), wishes, host);
}

// "mlx5_0/3-mlx5_0/1": device and GID index of the lower and the higher rank, best first.
std::string told(const Pairs& found, const Offer& low, const Offer& high) {
  std::string text;
  for (const auto& [a, b] : found.pairs) {
    text += fmt::format("{}{}/{}-{}/{}", text.empty() ? "" : " ", low.endpoints[a].device,
                        low.endpoints[a].gid_index, high.endpoints[b].device,
                        high.endpoints[b].gid_index);
  }
  return text;
}

std::string ethernet_port(int port, const char* netdev, const char* address) {
  return fmt::format("port {0} active ethernet mtu=4096\ngid 0 {2} v2 {1}\nnetdev {1} up {2}/24\n",
                     port, netdev, address);
}

std::string ethernet(const char* device, const char* netdev, const char* address, int guid) {
  return fmt::format("device {} driver=mlx5_core vendor=0x2c9 part=4119 guid={}\n", device, guid) +
         ethernet_port(1, netdev, address);
}

constexpr const char* mixed_a = R"(
device mlx5_0 driver=mlx5_core guid=1
port 1 active ethernet mtu=4096
gid 0 fe80::a v1 ens2
gid 1 fe80::a v2 ens2
gid 2 10.0.0.1 v1 ens2
gid 3 10.0.0.1 v2 ens2
netdev ens2 up 10.0.0.1/24
)";
constexpr const char* mixed_b = R"(
device mlx5_0 driver=mlx5_core guid=2
port 1 active ethernet mtu=4096
gid 0 fe80::b v1 ens2
gid 5 fe80::b v2 ens2
gid 6 10.0.0.2 v1 ens2
gid 7 10.0.0.2 v2 ens2
netdev ens2 up 10.0.0.2/24
)";

TEST(pairs_of_gids, have_one_type_and_one_kind_of_address) {
  const auto low = offer("a", mixed_a);
  const auto high = offer("b", mixed_b);
  EXPECT_EQ(told(pairs(low, high), low, high),
            "mlx5_0/3-mlx5_0/7 mlx5_0/2-mlx5_0/6 mlx5_0/1-mlx5_0/5 mlx5_0/0-mlx5_0/0");
}

TEST(pairs_of_gids, prefer_one_subnet_to_the_order_of_the_lower_rank) {
  const auto low = offer(
      "a", ethernet("mlx5_0", "ens2", "10.0.0.1", 1) + ethernet("mlx5_1", "ens3", "10.2.0.1", 2),
      {.bootstrap_address = gid("10.0.0.1")});
  const auto high = offer(
      "b", ethernet("mlx5_0", "ens2", "10.2.0.9", 3) + ethernet("mlx5_1", "ens3", "10.3.0.9", 4));
  EXPECT_EQ(told(pairs(low, high), low, high),
            "mlx5_1/0-mlx5_0/0 mlx5_0/0-mlx5_0/0 mlx5_0/0-mlx5_1/0 mlx5_1/0-mlx5_1/0");
}

TEST(pairs_of_gids, are_the_lower_ranks_order_where_both_ends_prefer_differently) {
  const auto low = offer(
      "a", ethernet("mlx5_0", "ens2", "10.0.0.1", 1) + ethernet("mlx5_1", "ens3", "10.0.0.2", 2),
      {.bootstrap_address = gid("10.0.0.2")});
  const auto high = offer(
      "b", ethernet("mlx5_0", "ens2", "10.0.0.3", 3) + ethernet("mlx5_1", "ens3", "10.0.0.4", 4),
      {.bootstrap_address = gid("10.0.0.3")});
  EXPECT_EQ(told(pairs(low, high), low, high),
            "mlx5_1/0-mlx5_0/0 mlx5_1/0-mlx5_1/0 mlx5_0/0-mlx5_0/0 mlx5_0/0-mlx5_1/0");
}

TEST(pairs_of_gids, of_one_device_loop_back) {
  const auto table = ethernet("mlx5_0", "ens2", "10.0.0.1", 1);
  const auto low = offer("a", table);
  EXPECT_EQ(told(pairs(low, low), low, low), "mlx5_0/0-mlx5_0/0");
}

TEST(pairs_of_gids, without_a_common_type_name_both_hosts_and_all_they_offer) {
  const auto low = offer("a", "device mlx4_0 guid=1\nport 1 active ethernet\ngid 0 10.0.0.1 v1\n");
  const auto high = offer("b", ethernet("mlx5_0", "ens2", "10.0.0.2", 2));
  const auto found = pairs(low, high);
  EXPECT_TRUE(found.pairs.empty());
  EXPECT_THAT(found.why_none.cause,
              AllOf(HasSubstr("host a (mlx4_0 port 1, GID 0 ::ffff:10.0.0.1 (RoCE v1"),
                    HasSubstr("host b (mlx5_0 port 1, GID 0 ::ffff:10.0.0.2 (RoCE v2"),
                    HasSubstr("no common GID type")));
  EXPECT_THAT(found.why_none.hint, HasSubstr("QPMESH_GID_INDEX"));
}

TEST(pairs_of_gids, of_roce_and_iwarp_are_none) {
  const auto roce = offer("a", ethernet("mlx5_0", "ens2", "10.0.0.1", 1));
  const auto iwarp = offer("b",
                           "device cxgb4_0 guid=2 iwarp\nport 1 active ethernet\n"
                           "gid 0 10.0.0.2 iwarp ens2\nnetdev ens2 up 10.0.0.2/24\n",
                           {.manager = true});
  EXPECT_EQ(told(pairs(iwarp, iwarp), iwarp, iwarp), "cxgb4_0/0-cxgb4_0/0");
  const auto found = pairs(roce, iwarp);
  EXPECT_TRUE(found.pairs.empty());
  EXPECT_THAT(found.why_none.cause,
              AllOf(HasSubstr("(iWARP, ens2)"), HasSubstr("no common GID type")));
}

TEST(pairs_of_gids, without_a_common_address_family_name_it) {
  const auto low = offer("a", ethernet("mlx5_0", "ens2", "10.0.0.1", 1));
  const auto high =
      offer("b",
            "device bnxt_re0 guid=2\nport 1 active ethernet\ngid 0 2001:db8::2 v2 ens5\n"
            "netdev ens5 up 2001:db8::2/64\n");
  const auto found = pairs(low, high);
  EXPECT_TRUE(found.pairs.empty());
  EXPECT_THAT(found.why_none.cause, HasSubstr("no common address family"));
  EXPECT_THAT(found.why_none.hint, HasSubstr("IPv4 address"));
}

TEST(pairs_of_gids, name_every_reason_and_hint_at_the_nearest_miss) {
  const auto low = offer(
      "a", std::string{"device ib0 guid=1\nport 1 active infiniband lid=4\ngid 0 fe80::1 ib\n"} +
               ethernet("mlx5_1", "ens2", "10.0.0.1", 2));
  const auto high = offer("b", "device mlx4_0 guid=3\nport 1 active ethernet\ngid 0 10.0.0.2 v1\n");
  const auto found = pairs(low, high);
  EXPECT_TRUE(found.pairs.empty());
  EXPECT_THAT(found.why_none.cause,
              AllOf(HasSubstr("InfiniBand, the other Ethernet"), HasSubstr("no common GID type")));
  EXPECT_THAT(found.why_none.hint, HasSubstr("RoCE v2"));
}

TEST(pairs_of_gids, of_two_devices_with_the_same_address_are_none) {
  const auto low = offer("a", ethernet("mlx5_0", "ens2", "192.168.1.1", 1));
  const auto high = offer("b", ethernet("mlx5_0", "ens2", "192.168.1.1", 2));
  const auto found = pairs(low, high);
  EXPECT_TRUE(found.pairs.empty());
  EXPECT_THAT(found.why_none.cause, HasSubstr("the same GID"));
}

TEST(pairs_of_gids, with_a_host_that_offers_nothing_pass_on_its_reason) {
  const auto low = offer("a", ethernet("mlx5_0", "ens2", "10.0.0.1", 1));
  const auto high = offer("b", "");
  for (const auto& found : {pairs(low, high), pairs(high, low)}) {
    EXPECT_TRUE(found.pairs.empty());
    EXPECT_THAT(found.why_none.cause,
                AllOf(HasSubstr("host b offers no RDMA endpoint"), HasSubstr("no RDMA device")));
    EXPECT_THAT(found.why_none.hint, HasSubstr("docs/softroce.md"));
  }
}

std::string infiniband(const char* address, int lid, int guid) {
  return fmt::format(
      "device mlx5_0 guid={}\nport 1 active infiniband mtu=4096 lid={}\ngid 0 {} ib\n", guid, lid,
      address);
}

TEST(pairs_of_infiniband_ports, share_a_subnet_prefix_or_are_routed) {
  const auto reached = [](const char* one, const char* other) {
    const auto low = offer("a", infiniband(one, 1, 1));
    const auto high = offer("b", infiniband(other, 2, 2));
    return proximity(low.endpoints[0], high.endpoints[0]);
  };
  EXPECT_EQ(reached("fe80::1", "fe80::2"), Proximity::same_subnet);
  EXPECT_EQ(reached("fec0:0:0:1::1", "fec0:0:0:1::2"), Proximity::same_subnet);
  EXPECT_EQ(reached("fec0:0:0:1::1", "fec0:0:0:2::2"), Proximity::other_subnet);
  EXPECT_EQ(reached("fe80::1", "fec0:0:0:2::2"), Proximity::unreachable);
}

TEST(pairs_of_infiniband_ports, of_two_fabrics_name_the_reason) {
  const auto found =
      pairs(offer("a", infiniband("fe80::1", 1, 1)), offer("b", infiniband("fec0:0:0:2::2", 2, 2)));
  EXPECT_TRUE(found.pairs.empty());
  EXPECT_THAT(found.why_none.cause, HasSubstr("different prefixes"));
}

// Which port each rank was given: "mlx5_0:1 mlx5_1:1".
std::string told(const std::vector<PortChoice>& choices) {
  std::string text;
  for (const auto& [device, port] : choices)
    text += fmt::format("{}{}:{}", text.empty() ? "" : " ", device.empty() ? "none" : device, port);
  return text;
}

std::string partition(const char* device, const char* gid, const char* pkeys) {
  return fmt::format("device {0}\nport 1 active infiniband lid=1 pkeys={2}\ngid 0 {1} ib\n", device,
                     gid, pkeys);
}

TEST(pairs_of_partition_keys, are_of_one_partition_and_not_both_limited_members) {
  const auto joined = [](const char* one, const char* other) {
    return !pairs(offer("a", partition("mlx5_0", "fe80::1", one)),
                  offer("b", partition("mlx5_0", "fe80::2", other)))
                .pairs.empty();
  };
  EXPECT_TRUE(joined("0xffff", "0xffff"));
  EXPECT_TRUE(joined("0x8012", "0x0012"));
  EXPECT_FALSE(joined("0x0012", "0x0012"));
  EXPECT_FALSE(joined("0x8012", "0x8013"));
  EXPECT_FALSE(joined("0xffff", "0x8012"));
}

TEST(pairs_of_partition_keys, that_differ_name_both_keys_and_the_option) {
  const auto none = pairs(offer("a", partition("mlx5_0", "fe80::1", "0x8012")),
                          offer("b", partition("mlx5_0", "fe80::2", "0x8013")))
                        .why_none;
  EXPECT_THAT(none.cause, AllOf(HasSubstr("different partitions"),
                                HasSubstr("partition key 0x8012"), HasSubstr("key 0x8013")));
  EXPECT_THAT(none.hint, HasSubstr("QPMESH_PKEY_INDEX"));
}

TEST(ports, of_two_partitions_are_those_of_the_common_one) {
  const std::vector offers{offer("a", partition("mlx5_0", "fe80::1", "0x8012") +
                                          partition("mlx5_1", "fe80::2", "0x8013")),
                           offer("b", partition("mlx5_0", "fe80::3", "0x8013"))};
  EXPECT_EQ(choose_ports(offers, {}), (std::vector<PortChoice>{{"mlx5_1", 1}, {"mlx5_0", 1}}));
}

TEST(ports, of_ranks_on_two_rails_are_all_on_one_of_them) {
  std::vector<Offer> offers;
  for (int host = 1; host <= 4; ++host) {
    // Odd hosts met on the first rail's network, even ones on the second's.
    const auto first = fmt::format("10.0.0.{}", host);
    const auto second = fmt::format("10.2.0.{}", host);
    offers.push_back(offer("h",
                           ethernet("mlx5_0", "ens2", first.c_str(), 2 * host) +
                               ethernet("mlx5_1", "ens3", second.c_str(), 2 * host + 1),
                           {.bootstrap_address = gid(host % 2 == 1 ? first : second)}));
  }
  const auto choices = choose_ports(offers, {});
  EXPECT_EQ(std::ranges::count(choices, choices[0]), 4) << told(choices);
}

TEST(ports, go_where_most_ranks_can_be_reached) {
  // Everybody's best port is InfiniBand, but the third host has none.
  std::vector<Offer> offers;
  for (int host = 1; host <= 3; ++host) {
    std::string table;
    if (host != 3)
      table += fmt::format(
          "device ib0 guid={0}\nport 1 active infiniband lid={0}\ngid 0 fe80::{0} ib\n", host);
    table += ethernet("mlx5_1", "ens3", fmt::format("10.2.0.{}", host).c_str(), 10 + host);
    offers.push_back(offer("h", table));
  }
  EXPECT_EQ(told(choose_ports(offers, {})), "mlx5_1:1 mlx5_1:1 mlx5_1:1");
}

TEST(ports, of_ranks_on_one_node_count_only_towards_the_others) {
  // Two ranks of one node have both kinds; a third elsewhere has Ethernet only. Among themselves
  // the two would rather use InfiniBand, but they need no port for that.
  std::vector<Offer> offers;
  const auto both = "device ib0 guid=1\nport 1 active infiniband lid=1\ngid 0 fe80::1 ib\n" +
                    ethernet("mlx5_1", "ens3", "10.2.0.1", 11);
  offers.push_back(offer("a", both));
  offers.push_back(offer("a", both));
  offers.push_back(offer("b", ethernet("mlx5_1", "ens3", "10.2.0.2", 12)));
  EXPECT_EQ(told(choose_ports(offers, std::vector{0, 0, 1})), "mlx5_1:1 mlx5_1:1 mlx5_1:1");
}

TEST(ports, of_a_rank_without_any_are_none_and_do_not_hinder_the_rest) {
  const std::vector<Offer> offers{offer("a", ethernet("mlx5_0", "ens2", "10.0.0.1", 1)),
                                  offer("b", ""),
                                  offer("c", ethernet("mlx5_0", "ens2", "10.0.0.3", 3))};
  const auto choices = choose_ports(offers, {});
  EXPECT_EQ(told(choices), "mlx5_0:1 none:0 mlx5_0:1");
  EXPECT_TRUE(restrict_to(offers[1], choices[1]).endpoints.empty());
  EXPECT_FALSE(restrict_to(offers[1], choices[1]).why_none.cause.empty());
}

TEST(ports, narrow_an_offer_to_their_own_gids) {
  const auto both = offer("a", std::string{mixed_a} + ethernet("mlx5_1", "ens3", "10.2.0.1", 9));
  EXPECT_EQ(restrict_to(both, {"mlx5_1", 1}).endpoints.size(), 1U);
  EXPECT_EQ(restrict_to(both, {"mlx5_0", 1}).endpoints.size(), 4U);
  EXPECT_EQ(restrict_to(both, {"mlx5_0", 2}).endpoints.size(), 0U);
}

TEST(ports, of_a_second_rail_are_others_that_reach_each_other) {
  std::vector<Offer> offers{offer("a", ethernet("mlx5_0", "ens2", "10.1.0.1", 1) +
                                           ethernet("mlx5_1", "ens3", "10.2.0.1", 2)),
                            offer("b", ethernet("mlx5_0", "ens2", "10.2.0.2", 3) +
                                           ethernet("mlx5_1", "ens3", "10.1.0.2", 4)),
                            offer("c", ethernet("mlx5_0", "ens2", "10.1.0.3", 5))};
  const auto first = choose_ports(offers, {});
  EXPECT_EQ(told(first), "mlx5_0:1 mlx5_1:1 mlx5_0:1");
  for (std::size_t rank = 0; rank < offers.size(); ++rank)
    offers[rank] = without(offers[rank], first[rank]);
  EXPECT_TRUE(offers[2].endpoints.empty());
  EXPECT_EQ(told(choose_ports(offers, {})), "mlx5_1:1 mlx5_0:1 none:0");
}

TEST(ports, of_a_second_rail_may_be_of_the_same_device) {
  std::vector<Offer> offers{
      offer("a", ethernet("mlx5_0", "ens2", "10.1.0.1", 1) + ethernet_port(2, "ens3", "10.2.0.1")),
      offer("b", ethernet("mlx5_0", "ens2", "10.2.0.2", 2) + ethernet_port(2, "ens3", "10.1.0.2"))};
  const auto first = choose_ports(offers, {});
  EXPECT_EQ(told(first), "mlx5_0:2 mlx5_0:1");
  for (std::size_t rank = 0; rank < offers.size(); ++rank)
    offers[rank] = without(offers[rank], first[rank]);
  EXPECT_EQ(told(choose_ports(offers, {})), "mlx5_0:1 mlx5_0:2");
}

TEST(ports, are_chosen_for_a_thousand_ranks_without_delay) {
  std::vector<Offer> offers;
  std::vector<int> node_ids;
  for (int host = 0; host < 128; ++host) {
    std::string table;
    for (int rail = 0; rail < 8; ++rail) {
      table += ethernet(fmt::format("mlx5_{}", rail).c_str(), fmt::format("ens{}", rail).c_str(),
                        fmt::format("10.{}.0.{}", rail, host + 1).c_str(), host * 8 + rail);
    }
    const auto own = offer("h", table);
    for (int rank = 0; rank < 8; ++rank) {
      offers.push_back(own);
      node_ids.push_back(host);
    }
  }
  const auto choices = choose_ports(offers, node_ids);
  EXPECT_EQ(std::ranges::count(choices, PortChoice{"mlx5_0", 1}), 1024);
}

int pairs_connected(std::span<const Offer> offers, std::span<const PortChoice> choices) {
  int connected = 0;
  for (std::size_t a = 0; a < offers.size(); ++a) {
    for (std::size_t b = a + 1; b < offers.size(); ++b) {
      const auto found =
          pairs(restrict_to(offers[a], choices[a]), restrict_to(offers[b], choices[b]));
      connected += found.pairs.empty() ? 0 : 1;
    }
  }
  return connected;
}

// What no choice of ports can beat, by trying all of them.
int pairs_connected_at_best(std::span<const Offer> offers, std::vector<PortChoice>& choices) {
  if (choices.size() == offers.size()) return pairs_connected(offers, choices);
  int best = 0;
  for (const auto& endpoint : offers[choices.size()].endpoints) {
    choices.push_back({endpoint.device, endpoint.port});
    best = std::max(best, pairs_connected_at_best(offers, choices));
    choices.pop_back();
  }
  return best;
}

// Up to three devices, each on one of four networks that do not reach each other.
std::string random_host(int host, std::mt19937& random) {
  std::string table;
  const auto device_count = 1 + static_cast<int>(random() % 3);
  for (int device = 0; device < device_count; ++device) {
    const auto network = random() % 4;
    const auto guid = host * 10 + device;
    if (network == 3) {
      table += fmt::format(
          "device d{0} guid={1}\nport 1 active infiniband lid={1}\ngid 0 fe80::{1} ib\n", device,
          guid);
    } else {
      table +=
          fmt::format("device d{} guid={}\nport 1 active ethernet\ngid 0 {}{} {}\n", device, guid,
                      network == 2 ? "2001:db8::" : "10.0.0.", guid, network == 0 ? "v1" : "v2");
    }
  }
  return table;
}

TEST(ports, of_random_clusters_connect_everybody_wherever_any_choice_does) {
  constexpr int hosts = 5;
  constexpr int all_pairs = hosts * (hosts - 1) / 2;
  std::mt19937 random{20};
  int connectable = 0;
  for (int cluster = 0; cluster < 200; ++cluster) {
    std::vector<Offer> offers;
    for (int host = 1; host <= hosts; ++host)
      offers.push_back(offer("h", random_host(host, random)));
    std::vector<PortChoice> tried;
    const int possible = pairs_connected_at_best(offers, tried);
    const int found = pairs_connected(offers, choose_ports(offers, {}));
    if (possible == all_pairs) {
      ++connectable;
      EXPECT_EQ(found, all_pairs) << "cluster " << cluster;
    }
    std::vector<PortChoice> first;
    first.reserve(offers.size());
    for (const auto& each : offers)
      first.push_back({each.endpoints[0].device, each.endpoints[0].port});
    EXPECT_GE(found, pairs_connected(offers, first)) << "cluster " << cluster;
  }
  EXPECT_GE(connectable, 10);
}

struct Kind {
  const char* name;
  const char* device;
  LinkLayer link_layer;
  bool x86;
  const char* expected;  // small, medium
};
class Notified : public ::testing::TestWithParam<Kind> {};

TEST_P(Notified, by_default_in_this_way) {
  const auto facts = devices(GetParam().device);
  const auto chosen = default_notifications(facts[0], GetParam().link_layer, GetParam().x86);
  const auto word = [](Notification each) {
    return each == Notification::poll ? "poll" : "immediate";
  };
  EXPECT_EQ(fmt::format("{} {}", word(chosen.small), word(chosen.medium)), GetParam().expected);
  EXPECT_FALSE(chosen.reason.empty());
}

TEST(notifications, of_two_devices_rely_on_no_more_than_both_keep) {
  using transport::Notification;
  for (int bits = 0; bits < 64; ++bits) {
    const auto of = [=](int from) {
      const auto bit = [=](int i) { return (bits >> (from + i) & 1) != 0; };
      return Notifications{.small = bit(0) ? Notification::immediate : Notification::poll,
                           .medium = bit(1) ? Notification::immediate : Notification::poll,
                           .reason = from == 0 ? "one" : "other",
                           .bytes_in_order = bit(2)};
    };
    const Notifications both = less_of(of(0), of(3));
    EXPECT_EQ(both.small, std::max(of(0).small, of(3).small));
    EXPECT_EQ(both.medium, std::max(of(0).medium, of(3).medium));
    EXPECT_EQ(both.bytes_in_order, of(0).bytes_in_order && of(3).bytes_in_order);
  }
}

INSTANTIATE_TEST_SUITE_P(
    of_a_device, Notified,
    ::testing::Values(Kind{"softroce", "device rxe0 driver=rdma_rxe software", LinkLayer::ethernet,
                           true, "poll immediate"},
                      Kind{"softroce_on_arm", "device rxe0 driver=rdma_rxe software",
                           LinkLayer::ethernet, false, "immediate immediate"},
                      Kind{"connectx_5", "device mlx5_0 vendor=0x2c9 part=4119",
                           LinkLayer::ethernet, true, "poll poll"},
                      Kind{"connectx_5_on_arm", "device mlx5_0 vendor=0x2c9 part=4119",
                           LinkLayer::ethernet, false, "immediate immediate"},
                      Kind{"connectx_5_on_infiniband", "device mlx5_0 vendor=0x2c9 part=4119",
                           LinkLayer::infiniband, true, "immediate immediate"},
                      Kind{"connectx_3", "device mlx4_0 vendor=0x2c9 part=4103",
                           LinkLayer::ethernet, true, "poll poll"},
                      Kind{"connectx_8_spreads_over_paths", "device mlx5_0 vendor=0x2c9 part=4131",
                           LinkLayer::ethernet, true, "immediate immediate"},
                      Kind{"bluefield_2", "device mlx5_0 vendor=0x2c9 part=41686",
                           LinkLayer::ethernet, true, "poll poll"},
                      Kind{"intel", "device irdma0 vendor=0x8086 part=0x1592", LinkLayer::ethernet,
                           true, "poll poll"},
                      Kind{"broadcom", "device bnxt_re0 vendor=0x14e4 part=0x1750",
                           LinkLayer::ethernet, true, "poll poll"},
                      Kind{"marvell", "device qedr0 vendor=0x1077 part=0x1656", LinkLayer::ethernet,
                           true, "poll poll"},
                      Kind{"hisilicon", "device hns_0 vendor=0x19e5 part=0xa222",
                           LinkLayer::ethernet, true, "poll poll"},
                      Kind{"a_stranger", "device x0 vendor=0x1234 part=1", LinkLayer::ethernet,
                           true, "immediate immediate"},
                      Kind{"siw", "device siw0 driver=siw software iwarp", LinkLayer::ethernet,
                           true, "poll poll"},
                      Kind{"intel_by_iwarp", "device irdma0 vendor=0x8086 part=0x37ce iwarp",
                           LinkLayer::ethernet, true, "immediate immediate"},
                      Kind{"siw_on_arm", "device siw0 driver=siw software iwarp",
                           LinkLayer::ethernet, false, "immediate immediate"},
                      Kind{"another_software_device", "device x0 driver=x software",
                           LinkLayer::ethernet, true, "immediate immediate"}),
    [](const auto& instance) { return std::string{instance.param.name}; });

}  // namespace
}  // namespace qpmesh::transport::verbs::selection
