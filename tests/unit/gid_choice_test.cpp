// SPDX-License-Identifier: MIT
// Which GIDs a rank offers, on tables of real shapes: what adapters, virtual machines and
// containers show.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "base/bytes.hpp"
#include "qpmesh/error.hpp"
#include "support/device_tables.hpp"
#include "transport/verbs/selection/choice.hpp"

namespace qpmesh::transport::verbs::selection {
namespace {

using test::devices;
using test::gid;
using ::testing::AllOf;
using ::testing::HasSubstr;

// "rxe0:1/1 rxe0:1/0": device, port and GID index of each endpoint, best first.
std::string offered(const Offer& offer) {
  std::string text;
  for (const auto& each : offer.endpoints)
    text +=
        fmt::format("{}{}:{}/{}", text.empty() ? "" : " ", each.device, each.port, each.gid_index);
  return text;
}

struct Shape {
  const char* name;
  const char* table;
  Wishes wishes;
  const char* expected;
};

class Table : public ::testing::TestWithParam<Shape> {};

TEST_P(Table, gives_these_endpoints_in_this_order) {
  const auto& shape = GetParam();
  const auto offer = make_offer(devices(shape.table), shape.wishes, "a");
  EXPECT_EQ(offered(offer), shape.expected) << offer.why_none.cause;
  EXPECT_TRUE(offer.why_none.cause.empty()) << offer.why_none.cause;
}

INSTANTIATE_TEST_SUITE_P(
    of_a_machine, Table,
    ::testing::Values(Shape{"iwarp_where_the_manager_connects",
                            R"(
device siw0 driver=siw software iwarp
port 1 active ethernet mtu=1024
gid 0 10.0.0.1 iwarp eth0
gid 1 fe80::1 iwarp eth0
netdev eth0 up 10.0.0.1/24 fe80::1/64
)",
                            {.manager = true},
                            "siw0:1/0 siw0:1/1"},
                      Shape{"softroce_on_an_interface_with_an_address",
                            R"(
device rxe0 driver=rdma_rxe software
port 1 active ethernet mtu=1024
gid 0 fe80::5054:ff:fe12:3401 v2 eth0
gid 1 10.77.0.1 v2 eth0
netdev eth0 up 10.77.0.1/24 fe80::5054:ff:fe12:3401/64
)",
                            {},
                            "rxe0:1/1 rxe0:1/0"},
                      Shape{"softroce_on_a_dummy_interface_with_a_second_address",
                            R"(
device rxe0 driver=rdma_rxe software
port 1 active ethernet mtu=4096
gid 0 fe80::dcad:beff:feef:1 v2 d0
gid 1 10.77.0.1 v2 d0
gid 2 fd77::1 v2 d0
netdev d0 up 10.77.0.1/24 fd77::1/64
)",
                            {},
                            "rxe0:1/1 rxe0:1/2 rxe0:1/0"},
                      Shape{"link_local_only_is_the_last_resort_not_nothing",
                            R"(
device rocep1s0 driver=bnxt_re vendor=0x14e4
port 1 active ethernet mtu=4096
gid 0 fe80::be97:e1ff:fe00:1 v1 ens1
gid 1 fe80::be97:e1ff:fe00:1 v2 ens1
netdev ens1 up fe80::be97:e1ff:fe00:1/64
)",
                            {},
                            "rocep1s0:1/1 rocep1s0:1/0"},
                      Shape{"v1_and_v2_mixed_as_mlx5_lists_them",
                            R"(
device mlx5_0 driver=mlx5_core vendor=0x2c9 part=4121
port 1 active ethernet mtu=4096
gid 0 fe80::ba59:9fff:fe00:1 v1 ens2
gid 1 fe80::ba59:9fff:fe00:1 v2 ens2
gid 2 192.168.5.1 v1 ens2
gid 3 192.168.5.1 v2 ens2
netdev ens2 up 192.168.5.1/24
)",
                            {},
                            "mlx5_0:1/3 mlx5_0:1/2 mlx5_0:1/1 mlx5_0:1/0"},
                      Shape{"v1_only",
                            R"(
device mlx4_0 driver=mlx4_core vendor=0x2c9 part=4103
port 1 active ethernet mtu=1024
gid 0 fe80::202:c9ff:fe00:1 v1 eth4
gid 1 10.1.0.7 v1 eth4
netdev eth4 up 10.1.0.7/16
)",
                            {},
                            "mlx4_0:1/1 mlx4_0:1/0"},
                      Shape{"ipv6_only",
                            R"(
device bnxt_re0 driver=bnxt_en vendor=0x14e4
port 1 active ethernet mtu=4096
gid 0 fe80::1 v2 ens5
gid 1 2001:db8:7::1 v2 ens5
netdev ens5 up 2001:db8:7::1/64 fe80::1/64
)",
                            {},
                            "bnxt_re0:1/1 bnxt_re0:1/0"},
                      Shape{"unique_local_ipv6_only",
                            R"(
device rxe0 driver=rdma_rxe software
port 1 active ethernet mtu=1024
gid 0 fe80::1 v2 eth0
gid 1 fd12:3456::9 v2 eth0
netdev eth0 up fd12:3456::9/48
)",
                            {},
                            "rxe0:1/1 rxe0:1/0"},
                      Shape{"ipv4_link_local_ranks_with_the_other_link_local_ones",
                            R"(
device mlx5_0 driver=mlx5_core vendor=0x2c9 part=4119
port 1 active ethernet mtu=4096
gid 0 169.254.3.4 v2 ens2
gid 1 2001:db8::5 v2 ens2
netdev ens2 up 169.254.3.4/16 2001:db8::5/64
)",
                            {},
                            "mlx5_0:1/1 mlx5_0:1/0"},
                      Shape{"several_interfaces_the_one_where_the_ranks_met_first",
                            R"(
device mlx5_0 driver=mlx5_core vendor=0x2c9 part=4119
port 1 active ethernet mtu=4096
gid 0 10.0.0.1 v2 ens2
device mlx5_1 driver=mlx5_core vendor=0x2c9 part=4119
port 1 active ethernet mtu=4096
gid 0 fe80::2 v2 ens3
gid 1 10.2.0.1 v2 ens3
netdev ens2 up 10.0.0.1/24
netdev ens3 up 10.2.0.1/24
)",
                            {.bootstrap_address = gid("10.2.0.1")},
                            "mlx5_1:1/1 mlx5_1:1/0 mlx5_0:1/0"},
                      Shape{"an_address_without_a_gid_of_its_own_still_tells_the_interface",
                            R"(
device mlx5_0 driver=mlx5_core vendor=0x2c9 part=4119
port 1 active ethernet mtu=4096
gid 0 10.0.0.1 v2 ens2
gid 1 10.5.0.1 v2 ens3
netdev ens2 up 10.0.0.1/24
netdev ens3 up 10.5.0.1/24 192.168.9.9/24
)",
                            {.bootstrap_address = gid("192.168.9.9")},
                            "mlx5_0:1/1 mlx5_0:1/0"},
                      Shape{"overlays_are_left_out",
                            R"(
device mlx5_0 driver=mlx5_core vendor=0x2c9 part=4119
port 1 active ethernet mtu=4096
gid 0 172.17.0.1 v2 docker0
gid 1 10.244.1.0 v2 flannel.1
gid 2 10.244.1.1 v2 cni0
gid 3 172.18.0.1 v2 br-5f1d2c3b4a
gid 4 192.168.77.1 v2 vxlan.calico
gid 5 10.0.0.1 v2 ens2
netdev docker0 up 172.17.0.1/16
netdev flannel.1 up 10.244.1.0/32
netdev cni0 up 10.244.1.1/24
netdev br-5f1d2c3b4a up 172.18.0.1/16
netdev vxlan.calico up 192.168.77.1/32
netdev ens2 up 10.0.0.1/24
)",
                            {},
                            "mlx5_0:1/5"},
                      Shape{"an_overlay_where_the_ranks_met_is_taken",
                            R"(
device rxe0 driver=rdma_rxe software
port 1 active ethernet mtu=1024
gid 0 172.17.0.1 v2 docker0
netdev docker0 up 172.17.0.1/16
)",
                            {.bootstrap_address = gid("172.17.0.1")},
                            "rxe0:1/0"},
                      Shape{"an_overlay_that_was_asked_for_is_taken",
                            R"(
device rxe0 driver=rdma_rxe software
port 1 active ethernet mtu=1024
gid 0 172.17.0.1 v2 docker0
netdev docker0 up 172.17.0.1/16
)",
                            {.netdev = "docker0"},
                            "rxe0:1/0"},
                      Shape{"holes_and_zero_entries",
                            R"(
device mlx5_0 driver=mlx5_core vendor=0x2c9 part=4119
port 1 active ethernet mtu=4096
gid 0 :: v1 ens2
gid 5 fe80::5 v2 ens2
gid 9 10.0.0.1 v1 ens2
gid 12 10.0.0.1 v2 ens2
netdev ens2 up 10.0.0.1/24
)",
                            {},
                            "mlx5_0:1/12 mlx5_0:1/9 mlx5_0:1/5"},
                      Shape{"infiniband_with_a_lid",
                            R"(
device mlx5_0 driver=mlx5_core vendor=0x2c9 part=4123
port 1 active infiniband mtu=4096 lid=12
gid 0 fe80::506b:4b03:00aa:0001 ib
)",
                            {},
                            "mlx5_0:1/0"},
                      Shape{"infiniband_that_needs_a_grh_and_has_no_lid",
                            R"(
device mlx5_0 driver=mlx5_core vendor=0x2c9 part=4123
port 1 active infiniband mtu=4096 grh
gid 0 fec0:0:0:1:506b:4b03:00aa:0001 ib
)",
                            {},
                            "mlx5_0:1/0"},
                      Shape{"infiniband_before_the_ethernet_where_the_ranks_met",
                            R"(
device mlx5_0 driver=mlx5_core vendor=0x2c9 part=4119
port 1 active ethernet mtu=1024
gid 0 10.0.0.1 v2 eno1
device mlx5_1 driver=mlx5_core vendor=0x2c9 part=4123
port 1 active infiniband mtu=4096 lid=3
gid 0 fe80::506b:4b03:00aa:0001 ib
netdev eno1 up 10.0.0.1/24
)",
                            {.bootstrap_address = gid("10.0.0.1")},
                            "mlx5_1:1/0 mlx5_0:1/0"},
                      Shape{"vlan_interfaces_beside_their_parent",
                            R"(
device mlx5_0 driver=mlx5_core vendor=0x2c9 part=4119
port 1 active ethernet mtu=4096
gid 0 fe80::1 v2 ens2
gid 1 10.0.0.1 v2 ens2
gid 2 10.100.0.1 v2 ens2.100
netdev ens2 up 10.0.0.1/24
netdev ens2.100 up 10.100.0.1/24
)",
                            {.subnet = parse_subnet("10.100.0.0/16")},
                            "mlx5_0:1/2"},
                      Shape{"one_port_down_the_other_active",
                            R"(
device mlx5_0 driver=mlx5_core vendor=0x2c9 part=4119
port 1 down ethernet mtu=1024
gid 0 10.0.0.1 v2 ens2f0
port 2 active ethernet mtu=4096
gid 0 10.0.1.1 v2 ens2f1
netdev ens2f0 up 10.0.0.1/24
netdev ens2f1 up 10.0.1.1/24
)",
                            {},
                            "mlx5_0:2/0"},
                      Shape{"a_bond_and_its_interface",
                            R"(
device mlx5_bond_0 driver=mlx5_core vendor=0x2c9 part=4125
port 1 active ethernet mtu=4096
gid 0 fe80::1 v1 bond0
gid 1 fe80::1 v2 bond0
gid 2 10.9.0.1 v1 bond0
gid 3 10.9.0.1 v2 bond0
netdev bond0 up 10.9.0.1/24
)",
                            {.netdev = "bond0"},
                            "mlx5_bond_0:1/3 mlx5_bond_0:1/2 mlx5_bond_0:1/1 mlx5_bond_0:1/0"},
                      Shape{"two_devices_two_subnets_one_asked_for",
                            R"(
device mlx5_0 driver=mlx5_core vendor=0x2c9 part=4119
port 1 active ethernet mtu=4096
gid 0 10.0.0.1 v2 ens2
device mlx5_1 driver=mlx5_core vendor=0x2c9 part=4119
port 1 active ethernet mtu=4096
gid 0 10.2.0.1 v2 ens3
netdev ens2 up 10.0.0.1/24
netdev ens3 up 10.2.0.1/24
)",
                            {.subnet = parse_subnet("10.2.0.0/24")},
                            "mlx5_1:1/0"},
                      Shape{"the_near_one_of_two_equal_devices",
                            R"(
device mlx5_0 driver=mlx5_core vendor=0x2c9 part=4119 numa=0
port 1 active ethernet mtu=4096
gid 0 10.0.0.1 v2 ens2
device mlx5_1 driver=mlx5_core vendor=0x2c9 part=4119 numa=1
port 1 active ethernet mtu=4096
gid 0 10.0.0.2 v2 ens3
netdev ens2 up 10.0.0.1/24
netdev ens3 up 10.0.0.2/24
)",
                            {.numa_node = 1},
                            "mlx5_1:1/0 mlx5_0:1/0"},
                      Shape{"the_faster_one_of_two_equal_ports",
                            R"(
device mlx5_0 driver=mlx5_core vendor=0x2c9 part=4117
port 1 active ethernet mtu=1024 rate=25000
gid 0 10.0.0.1 v2 ens2
device mlx5_1 driver=mlx5_core vendor=0x2c9 part=4125
port 1 active ethernet mtu=4096 rate=100000
gid 0 10.0.0.2 v2 ens3
netdev ens2 up 10.0.0.1/24
netdev ens3 up 10.0.0.2/24
)",
                            {},
                            "mlx5_1:1/0 mlx5_0:1/0"},
                      Shape{"hardware_before_softroce_even_where_the_ranks_met",
                            R"(
device rxe0 driver=rdma_rxe software
port 1 active ethernet mtu=1024
gid 0 10.0.0.1 v2 eno1
device mlx5_0 driver=mlx5_core vendor=0x2c9 part=4119
port 1 active ethernet mtu=4096
gid 0 fe80::1 v1 ens2
netdev eno1 up 10.0.0.1/24
netdev ens2 up fe80::1/64
)",
                            {.bootstrap_address = gid("10.0.0.1")},
                            "mlx5_0:1/0 rxe0:1/0"},
                      Shape{"an_interface_of_another_network_namespace_has_no_name_here",
                            R"(
device mlx5_0 driver=mlx5_core vendor=0x2c9 part=4119
port 1 active ethernet mtu=4096
gid 0 fe80::1 v2
gid 1 10.0.0.1 v2
)",
                            {},
                            "mlx5_0:1/1 mlx5_0:1/0"},
                      Shape{"asked_for_by_index",
                            R"(
device mlx5_0 driver=mlx5_core vendor=0x2c9 part=4119
port 1 active ethernet mtu=4096
gid 0 fe80::1 v1 ens2
gid 1 fe80::1 v2 ens2
gid 2 10.0.0.1 v1 ens2
gid 3 10.0.0.1 v2 ens2
netdev ens2 up 10.0.0.1/24
)",
                            {.gid_index = 0},
                            "mlx5_0:1/0"},
                      Shape{"asked_for_by_device_and_port",
                            R"(
device mlx5_0 driver=mlx5_core vendor=0x2c9 part=4119
port 1 active ethernet mtu=4096
gid 0 10.0.0.1 v2 ens2
port 2 active ethernet mtu=4096
gid 0 10.0.1.1 v2 ens3
device mlx5_1 driver=mlx5_core vendor=0x2c9 part=4119
port 2 active ethernet mtu=4096
gid 0 10.0.2.1 v2 ens4
netdev ens2 up 10.0.0.1/24
netdev ens3 up 10.0.1.1/24
netdev ens4 up 10.0.2.1/24
)",
                            {.device = "mlx5_0", .port = 2},
                            "mlx5_0:2/0"},
                      Shape{"many_addresses_of_one_interface_do_not_crowd_out_the_other_port",
                            R"(
device mlx5_0 driver=mlx5_core vendor=0x2c9 part=4119
port 1 active ethernet mtu=4096
gid 0 10.0.0.1 v2 ens2
gid 1 10.0.0.2 v2 ens2
gid 2 10.0.0.3 v2 ens2
gid 3 10.0.0.4 v2 ens2
gid 4 10.0.0.5 v2 ens2
gid 5 10.0.0.6 v2 ens2
gid 6 10.0.0.7 v2 ens2
gid 7 10.0.0.8 v2 ens2
gid 8 10.0.0.9 v2 ens2
device mlx5_1 driver=mlx5_core vendor=0x2c9 part=4119
port 1 active ethernet mtu=4096
gid 0 fe80::1 v2 ens3
netdev ens2 up 10.0.0.1/24
netdev ens3 up fe80::1/64
)",
                            {},
                            "mlx5_0:1/0 mlx5_0:1/1 mlx5_0:1/2 mlx5_0:1/3 mlx5_0:1/4 mlx5_0:1/5 "
                            "mlx5_0:1/6 mlx5_1:1/0"}),
    [](const auto& instance) { return std::string{instance.param.name}; });

struct Useless {
  const char* name;
  const char* table;
  Wishes wishes;
  std::vector<std::string> cause;  // what the sentences must hold
  std::vector<std::string> hint;
};

class UselessTable : public ::testing::TestWithParam<Useless> {};

TEST_P(UselessTable, says_precisely_why_and_what_to_do) {
  const auto& shape = GetParam();
  const auto offer = make_offer(devices(shape.table), shape.wishes, "a");
  EXPECT_EQ(offered(offer), "");
  for (const auto& part : shape.cause) EXPECT_THAT(offer.why_none.cause, HasSubstr(part));
  for (const auto& part : shape.hint) EXPECT_THAT(offer.why_none.hint, HasSubstr(part));
}

constexpr const char* two_adapters = R"(
device mlx5_0 driver=mlx5_core vendor=0x2c9 part=4119
port 1 active ethernet mtu=4096
gid 0 fe80::1 v2 ens2
gid 3 10.0.0.1 v2 ens2
device rxe0 driver=rdma_rxe software
port 1 active ethernet mtu=1024
gid 1 10.2.0.1 v2 eno1
netdev ens2 up 10.0.0.1/24
netdev eno1 up 10.2.0.1/24
)";

INSTANTIATE_TEST_SUITE_P(
    of_a_machine, UselessTable,
    ::testing::Values(
        Useless{"no_device", "", {}, {"no RDMA device"}, {"docs/softroce.md", "/dev/infiniband"}},
        Useless{"no_library",
                "",
                {.ibverbs_missing = "libibverbs.so.1: cannot open shared object file"},
                {"libibverbs cannot be used: libibverbs.so.1: cannot open"},
                {"apt-get install libibverbs1 librdmacm1"}},
        Useless{"no_descriptor",
                "",
                {.ibverbs_missing = "libibverbs.so.1: Too many open files",
                 .descriptors_error = EMFILE},
                {"RDMA cannot be looked for: "},
                {"raise the limit on open files"}},
        Useless{"a_wish_for_a_device_that_is_not_there",
                two_adapters,
                {.device = "mlx5_7"},
                {"no RDMA device mlx5_7", "mlx5_0, rxe0"},
                {"QPMESH_DEVICE"}},
        Useless{"a_wish_for_a_device_where_there_is_none",
                "",
                {.device = "mlx5_7"},
                {"no RDMA device"},
                {"rdma link"}},
        Useless{"a_wish_for_a_port_that_is_not_there",
                two_adapters,
                {.device = "rxe0", .port = 2},
                {"rxe0 has no port 2", "1"},
                {"QPMESH_DEVICE"}},
        Useless{"a_wish_for_an_index_that_is_not_there",
                two_adapters,
                {.gid_index = 2},
                {"QPMESH_GID_INDEX asks for 2", "there are: 0, 1, 3"},
                {"QPMESH_GID_INDEX"}},
        Useless{"a_wish_for_an_index_of_a_device_names_only_its_own",
                two_adapters,
                {.device = "mlx5_0", .gid_index = 1},
                {"there are: 0, 3"},
                {}},
        Useless{"a_wish_for_an_interface_that_has_no_gid",
                two_adapters,
                {.netdev = "eth9"},
                {"QPMESH_NETDEV asks for eth9", "there are: eno1, ens2"},
                {"QPMESH_NETDEV"}},
        Useless{"a_wish_for_a_subnet_that_nobody_is_in",
                two_adapters,
                {.subnet = parse_subnet("192.168.0.0/16")},
                {"QPMESH_SUBNET asks for 192.168.0.0/16", "::ffff:10.0.0.1"},
                {"QPMESH_SUBNET"}},
        Useless{"every_port_down",
                R"(
device mlx5_0 driver=mlx5_core vendor=0x2c9 part=4119
port 1 down ethernet mtu=1024
gid 0 fe80::1 v2 ens2
netdev ens2 down
)",
                {},
                {"mlx5_0 port 1: the port is down"},
                {"ip link set ens2 up", "cable"}},
        Useless{"a_port_down_without_any_gid",
                R"(
device mlx5_0 driver=mlx5_core vendor=0x2c9 part=4119
port 1 down ethernet mtu=1024
)",
                {},
                {"mlx5_0 port 1 is down and has no GID"},
                {"cable"}},
        Useless{"an_infiniband_port_before_its_subnet_manager_came",
                R"(
device mlx5_0 driver=mlx5_core vendor=0x2c9 part=4123
port 1 init infiniband mtu=4096
gid 0 fe80::1 ib
)",
                {},
                {"the port is init"},
                {"subnet manager"}},
        Useless{"an_infiniband_port_without_a_lid",
                R"(
device mlx5_0 driver=mlx5_core vendor=0x2c9 part=4123
port 1 active infiniband mtu=4096
gid 0 fe80::1 ib
)",
                {},
                {"no subnet manager has given the port a LID"},
                {"opensm"}},
        Useless{"the_interface_down",
                R"(
device rxe0 driver=rdma_rxe software
port 1 active ethernet mtu=1024
gid 0 fe80::1 v2 eth1
netdev eth1 down
)",
                {},
                {"rxe0 port 1: eth1 is down"},
                {"ip link set eth1 up"}},
        Useless{"overlays_only",
                R"(
device rxe0 driver=rdma_rxe software
port 1 active ethernet mtu=1024
gid 0 172.17.0.1 v2 docker0
netdev docker0 up 172.17.0.1/16
)",
                {},
                {"docker0 belongs to a container network"},
                {"QPMESH_NETDEV"}},
        Useless{"iwarp",
                R"(
device siw0 driver=siw software iwarp
port 1 active ethernet mtu=1024
gid 0 10.0.0.1 iwarp eth0
netdev eth0 up 10.0.0.1/24
)",
                {},
                {"iWARP is connected by the RDMA communication manager alone"},
                {"QPMESH_CONNECT=cm"}},
        Useless{"zero_entries_only",
                R"(
device mlx5_0 driver=mlx5_core vendor=0x2c9 part=4119
port 1 active ethernet mtu=1024
gid 0 :: v2 ens2
netdev ens2 up
)",
                {},
                {"the entry is zero"},
                {"ip addr add"}},
        Useless{"an_index_beyond_what_a_queue_pair_can_name",
                R"(
device rxe0 driver=rdma_rxe software
port 1 active ethernet mtu=1024
gid 256 10.0.0.1 v2 eth0
netdev eth0 up 10.0.0.1/24
)",
                {},
                {"beyond 255"},
                {"from eth0"}},
        Useless{"an_index_that_is_there_on_an_interface_that_is_down",
                R"(
device mlx5_0 driver=mlx5_core vendor=0x2c9 part=4119
port 1 active ethernet mtu=1024
gid 0 10.0.0.1 v2 ens2
gid 1 10.0.1.1 v2 ens3
netdev ens2 up 10.0.0.1/24
netdev ens3 down 10.0.1.1/24
)",
                {.gid_index = 1},
                {"ens3 is down"},
                {"ip link set ens3 up"}},
        Useless{"a_device_that_cannot_be_opened",
                "device mlx5_0 driver=mlx5_core unreadable=EACCES",
                {},
                {"mlx5_0 cannot be read (EACCES)"},
                {"/dev/infiniband"}}),
    [](const auto& instance) { return std::string{instance.param.name}; });

TEST(an_offer, that_is_empty_never_grows_beyond_a_message) {
  std::string table;
  for (int i = 0; i < 40; ++i)
    table += fmt::format(
        "device mlx5_{} driver=mlx5_core\nport 1 down ethernet\ngid 0 fe80::1 v2 ens{}\n", i, i);
  const auto offer = make_offer(devices(table), {}, "a");
  EXPECT_THAT(offer.why_none.cause, HasSubstr("and 32 more"));
  EXPECT_LT(offer.why_none.cause.size(), 600U);
}

TEST(judgements, explain_the_score_of_every_entry_in_order) {
  const auto facts = devices(two_adapters);
  const auto all = judge(facts, {.bootstrap_address = gid("10.2.0.1")});
  ASSERT_EQ(all.size(), 3U);
  const auto told = [&](const Judgement& each) {
    std::string text = facts[each.device].name;
    for (const auto& [name, points] : each.terms) text += fmt::format(", {} {:+}", name, points);
    return text + fmt::format(" = {}", each.score);
  };
  EXPECT_EQ(told(all[0]), "mlx5_0, RoCE v2 +200, IPv4 +100 = 300");
  EXPECT_EQ(told(all[1]), "mlx5_0, RoCE v2 +200, link-local -300 = -100");
  EXPECT_EQ(
      told(all[2]),
      "rxe0, software device -2000, where the ranks met +1000, RoCE v2 +200, IPv4 +100 = -700");
}

TEST(endpoints, carry_everything_that_a_queue_pair_needs) {
  const auto facts = devices(R"(
device mlx5_0 driver=mlx5_core vendor=0x2c9 part=4123 guid=77 reads=5
port 2 active infiniband mtu=2048 lid=12 grh
gid 4 fec0::1 ib
device mlx5_1 driver=mlx5_core vendor=0x2c9 part=4119
port 1 active ethernet mtu=1024
gid 3 10.0.0.1 v2 ens2
gid 4 2001:db8::1 v2 ens2
gid 5 fe80::1 v2 ens2
netdev ens2 up 10.0.0.1/20 2001:db8::1/56 fe80::1/64
)");
  const auto offer = make_offer(facts, {}, "a");
  ASSERT_EQ(offer.endpoints.size(), 4U);
  const Endpoint expected{.device = "mlx5_0",
                          .node_guid = 77,
                          .port = 2,
                          .link_layer = LinkLayer::infiniband,
                          .lid = 12,
                          .grh_required = true,
                          .gid_index = 4,
                          .gid = gid("fec0::1"),
                          .gid_type = GidType::infiniband,
                          .netdev = "",
                          .prefix_bits = 64,
                          .mtu_bytes = 2048,
                          .responder_reads_max = 5,
                          .initiator_reads_max = 5,
                          .pkey = 0xffff,
                          .score = 1400};
  EXPECT_EQ(offer.endpoints[0], expected);
  EXPECT_EQ(offer.endpoints[1].prefix_bits, 96 + 20);
  EXPECT_EQ(offer.endpoints[2].prefix_bits, 56);
  EXPECT_EQ(offer.endpoints[3].prefix_bits, 0) << "link-local prefixes are the same everywhere";
  EXPECT_EQ(to_string(offer.endpoints[0]),
            "mlx5_0 port 2, LID 12, GID 4 fec0::1 (InfiniBand), MTU 2048");
  EXPECT_EQ(to_string(offer.endpoints[1]),
            "mlx5_1 port 1, GID 3 ::ffff:10.0.0.1 (RoCE v2, ens2), MTU 1024");
}

// One GID of each type, at ports for which the system sets no class, and the class 96.
constexpr const char* port_classes = R"(
device mlx5_0 driver=mlx5_core vendor=0x2c9 part=4119
port 1 active ethernet mtu=4096
gid 0 10.0.0.1 v1 ens2
gid 1 10.0.0.1 v2 ens2
port 2 active ethernet mtu=4096 tclass=96
gid 0 10.0.1.1 v1 ens3
gid 1 10.0.1.1 v2 ens3
device mlx5_1 driver=mlx5_core vendor=0x2c9 part=4119
port 1 active infiniband mtu=4096 lid=3 tclass=96
gid 0 fe80::1 ib
netdev ens2 up 10.0.0.1/24
netdev ens3 up 10.0.1.1/24
)";

// "mlx5_0:1/1 106": each endpoint with its traffic class, by device, port and index.
std::vector<std::string> classes(int wished) {
  std::vector<std::string> found;
  for (const auto& each :
       make_offer(devices(port_classes), {.traffic_class = wished}, "a").endpoints)
    found.push_back(
        fmt::format("{}:{}/{} {}", each.device, each.port, each.gid_index, each.traffic_class));
  std::ranges::sort(found);
  return found;
}

TEST(a_traffic_class, is_the_ports_or_106_of_roce_v2_and_0_of_all_else) {
  EXPECT_EQ(classes(-1), (std::vector<std::string>{"mlx5_0:1/0 0", "mlx5_0:1/1 106", "mlx5_0:2/0 0",
                                                   "mlx5_0:2/1 96", "mlx5_1:1/0 0"}));
}

TEST(a_traffic_class, that_is_asked_for_is_that_of_every_endpoint) {
  for (const int wished : {0, 1, 255}) {
    for (const std::string& each : classes(wished))
      EXPECT_THAT(each, ::testing::EndsWith(fmt::format(" {}", wished)));
  }
}

TEST(service_level_and_flow_label, are_those_that_are_asked_for) {
  const auto offer =
      make_offer(devices(port_classes), {.service_level = 5, .flow_label = 0xabcde}, "a");
  ASSERT_EQ(offer.endpoints.size(), 5U);
  for (const Endpoint& each : offer.endpoints) {
    EXPECT_EQ(each.service_level, 5);
    EXPECT_EQ(each.flow_label, 0xabcdeU);
  }
}

// Returns the cause of what require_port_values throws; "" where it throws nothing.
std::string refused_values(const char* table, const Wishes& wishes) {
  try {
    require_port_values(devices(table), wishes);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_config);
    EXPECT_NE(error.hint(), "");
    return error.cause();
  }
  return {};
}

TEST(a_service_level, above_7_is_for_infiniband_alone) {
  EXPECT_EQ(offered(make_offer(devices(port_classes), {.service_level = 8}, "a")), "mlx5_1:1/0");
  EXPECT_EQ(refused_values(port_classes, {.service_level = 8}), "");
  EXPECT_EQ(refused_values(port_classes, {.device = "mlx5_0", .service_level = 8}),
            "QPMESH_SERVICE_LEVEL='8', allowed: 0 to 7 over Ethernet on mlx5_0 port 1");
  EXPECT_EQ(refused_values(port_classes, {.device = "mlx5_0", .service_level = 7}), "");
}

constexpr const char* partitions = R"(
device mlx5_0 driver=mlx5_core vendor=0x2c9 part=4119
port 1 active infiniband mtu=4096 lid=3 pkeys=0x7fff,0,0x8012
gid 0 fe80::1 ib
port 2 active infiniband mtu=4096 lid=4 pkeys=0x7fff,0x0034
gid 0 fe80::2 ib
)";

TEST(a_pkey_index, is_that_of_the_first_full_member_or_of_the_first_key_at_all) {
  const auto offer = make_offer(devices(partitions), {}, "a");
  ASSERT_EQ(offered(offer), "mlx5_0:1/0 mlx5_0:2/0");
  EXPECT_EQ(offer.endpoints[0].pkey_index, 2);
  EXPECT_EQ(offer.endpoints[0].pkey, 0x8012);
  EXPECT_EQ(offer.endpoints[1].pkey_index, 0);
  EXPECT_EQ(offer.endpoints[1].pkey, 0x7fff);
  EXPECT_THAT(to_string(offer.endpoints[0]), HasSubstr(", MTU 4096, partition key 0x8012"));
}

TEST(a_pkey_index, that_is_asked_for_leaves_the_ports_that_have_it) {
  const auto offered_with = [](int index) {
    return offered(make_offer(devices(partitions), {.pkey_index = index}, "a"));
  };
  EXPECT_EQ(offered_with(0), "mlx5_0:1/0 mlx5_0:2/0");
  EXPECT_EQ(offered_with(1), "mlx5_0:2/0") << "the entry of port 1 is 0";
  EXPECT_EQ(offered_with(2), "mlx5_0:1/0");
  EXPECT_EQ(refused_values(partitions, {.pkey_index = 2}), "");
  EXPECT_EQ(refused_values(partitions, {.device = "mlx5_0", .port = 2, .pkey_index = 2}),
            "QPMESH_PKEY_INDEX='2', allowed: 0 (0x7fff), 1 (0x0034) on mlx5_0 port 2");
  EXPECT_EQ(refused_values(partitions, {.pkey_index = 3}),
            "QPMESH_PKEY_INDEX='3', allowed: 0 (0x7fff), 2 (0x8012) on mlx5_0 port 1");
}

TEST(a_pkey_index, of_a_port_without_partitions_is_0) {
  constexpr const char* siw = R"(
device siw0 driver=siw software iwarp
port 1 active ethernet mtu=1024 pkeys=
gid 0 10.0.0.1 iwarp eth0
netdev eth0 up 10.0.0.1/24
)";
  EXPECT_EQ(make_offer(devices(siw), {.manager = true}, "a").endpoints.at(0).pkey, 0);
  EXPECT_EQ(refused_values(siw, {.pkey_index = 0, .manager = true}), "");
  EXPECT_EQ(refused_values(siw, {.pkey_index = 1, .manager = true}),
            "QPMESH_PKEY_INDEX='1', allowed: 0 on siw0 port 1");
}

TEST(port_values, are_not_what_is_wrong_where_a_port_cannot_be_used_at_all) {
  EXPECT_EQ(refused_values("device mlx5_0\nport 1 down ethernet\ngid 0 10.0.0.1 v2\n",
                           {.service_level = 9, .pkey_index = 5}),
            "");
  EXPECT_EQ(refused_values("", {.pkey_index = 5}), "");
}

TEST(wishes, are_read_from_the_options) {
  Options options;
  options.device = "mlx5_0:2";
  options.gid_index = 3;
  options.traffic_class = 96;
  options.service_level = 4;
  options.flow_label = 5;
  options.pkey_index = 6;
  options.netdev = "ens2";
  options.subnet = "10.1.2.3/20";
  const auto wishes = wishes_of(options);
  EXPECT_EQ(wishes.device, "mlx5_0");
  EXPECT_EQ(wishes.port, 2);
  EXPECT_EQ(wishes.gid_index, 3);
  EXPECT_EQ(wishes.traffic_class, 96);
  EXPECT_EQ(wishes.service_level, 4);
  EXPECT_EQ(wishes.flow_label, 5);
  EXPECT_EQ(wishes.pkey_index, 6);
  EXPECT_EQ(wishes.netdev, "ens2");
  ASSERT_TRUE(wishes.subnet.has_value());
  EXPECT_EQ(to_string(*wishes.subnet), "10.1.2.3/20");

  const auto none = wishes_of(Options{});
  EXPECT_EQ(none.device, "");
  EXPECT_EQ(none.port, 0);
  EXPECT_EQ(none.gid_index, -1);
  EXPECT_FALSE(none.subnet.has_value());
}

TEST(wishes, name_the_address_where_the_ranks_met_if_the_bootstrap_knows_it) {
  EXPECT_EQ(wishes_of(Options{}, "10.0.0.1").bootstrap_address, gid("10.0.0.1"));
  EXPECT_EQ(wishes_of(Options{}, "fd00::1").bootstrap_address, gid("fd00::1"));
  for (const auto* unknown : {"", "fe80::1%eth0", "node1"})
    EXPECT_EQ(wishes_of(Options{}, unknown).bootstrap_address, Gid{}) << unknown;
}

TEST(wishes, that_cannot_be_read_are_refused_with_variable_and_value) {
  const auto refused = [](const char* device, const char* subnet) {
    Options options;
    options.device = device;
    options.subnet = subnet;
    try {
      wishes_of(options);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_config);
      return error.cause();
    }
    return std::string{"nothing was thrown"};
  };
  for (const auto* device : {"mlx5_0:", "mlx5_0:x", "mlx5_0:0", "mlx5_0:256", ":1", "a:1:2"})
    EXPECT_THAT(refused(device, ""), AllOf(HasSubstr("QPMESH_DEVICE"), HasSubstr(device)));
  for (const auto* subnet :
       {"10.0.0.0", "10.0.0.0/33", "10.0.0/8", "fd00::/129", "/8", "10.0.0.0/", "ens2/8"})
    EXPECT_THAT(refused("", subnet), AllOf(HasSubstr("QPMESH_SUBNET"), HasSubstr(subnet)));
}

TEST(a_subnet, holds_what_agrees_in_its_leading_bits) {
  const auto holds = [](const char* subnet, const char* address) {
    return contains(*parse_subnet(subnet), gid(address));
  };
  EXPECT_TRUE(holds("10.1.2.0/23", "10.1.3.255"));
  EXPECT_FALSE(holds("10.1.2.0/23", "10.1.4.0"));
  EXPECT_TRUE(holds("0.0.0.0/0", "192.0.2.1"));
  EXPECT_FALSE(holds("0.0.0.0/0", "2001:db8::1"));
  EXPECT_TRUE(holds("10.0.0.1/32", "10.0.0.1"));
  EXPECT_FALSE(holds("10.0.0.1/32", "10.0.0.0"));
  EXPECT_TRUE(holds("fd00::/7", "fc00::1"));
  EXPECT_TRUE(holds("::/0", "10.0.0.1")) << "an IPv4 GID is an IPv6 address too";
}

TEST(an_encoded_offer, comes_back_the_same) {
  auto offer = make_offer(devices(two_adapters), {}, "host-a");
  EXPECT_EQ(decode(encode(offer), 1), offer);
  offer = make_offer({}, {}, "host-b");
  EXPECT_EQ(decode(encode(offer), 1), offer);
}

std::string refusal_of(BlobView blob) {
  try {
    decode(blob, 7);
  } catch (const Error& error) {
    EXPECT_EQ(error.peer(), 7);
    return std::string{to_string(error.code())};
  }
  return "accepted";
}

TEST(an_encoded_offer, cut_short_anywhere_or_followed_by_more_is_corrupt) {
  auto blob = encode(make_offer(devices(two_adapters), {}, "host-a"));
  for (std::size_t bytes = 0; bytes < blob.size(); ++bytes)
    EXPECT_EQ(refusal_of(BlobView{blob}.first(bytes)), "corrupt") << bytes;
  blob.push_back(std::byte{0});
  EXPECT_EQ(refusal_of(blob), "corrupt");
}

TEST(an_encoded_offer, with_a_value_that_no_device_has_is_corrupt) {
  const auto offer = make_offer(devices(two_adapters), {}, "a");
  const auto with = [&](auto&& change) {
    auto changed = offer;
    change(changed.endpoints[0]);
    return refusal_of(encode(changed));
  };
  EXPECT_EQ(with([](Endpoint&) {}), "accepted");
  EXPECT_EQ(with([](Endpoint& each) { each.mtu_bytes = 128; }), "corrupt");
  EXPECT_EQ(with([](Endpoint& each) { each.mtu_bytes = 1500; }), "corrupt");
  EXPECT_EQ(with([](Endpoint& each) { each.mtu_bytes = 8192; }), "corrupt");
  EXPECT_EQ(with([](Endpoint& each) { each.service_level = 16; }), "corrupt");
  EXPECT_EQ(with([](Endpoint& each) { each.flow_label = 1 << 20; }), "corrupt");
  EXPECT_EQ(with([](Endpoint& each) { each.port = 0; }), "corrupt");
  EXPECT_EQ(with([](Endpoint& each) { each.prefix_bits = 129; }), "corrupt");
  EXPECT_EQ(with([](Endpoint& each) { each.gid = {}; }), "corrupt");
  EXPECT_EQ(with([](Endpoint& each) { each.device = ""; }), "corrupt");
  EXPECT_EQ(with([](Endpoint& each) { each.device = "rxe\x1b[2J"; }), "corrupt");
  EXPECT_EQ(with([](Endpoint& each) { each.netdev = std::string(300, 'x'); }), "corrupt");
  EXPECT_EQ(with([](Endpoint& each) { each.link_layer = LinkLayer::unspecified; }), "corrupt");
  EXPECT_EQ(with([](Endpoint& each) { each.link_layer = LinkLayer::infiniband; }), "corrupt");
  EXPECT_EQ(with([](Endpoint& each) { each.gid_type = static_cast<GidType>(4); }), "corrupt");
  auto many = offer;
  many.endpoints.resize(endpoints_max + 1, offer.endpoints[0]);
  EXPECT_EQ(refusal_of(encode(many)), "corrupt");
}

TEST(an_encoded_offer, with_any_bit_flipped_is_corrupt_or_still_sound) {
  const auto blob = encode(make_offer(devices(two_adapters), {}, "host-a"));
  int accepted = 0;
  for (std::size_t bit = 0; bit < blob.size() * 8; ++bit) {
    auto changed = blob;
    changed[bit / 8] ^= std::byte{1} << (bit % 8);
    try {
      const auto offer = decode(changed, 7);
      ++accepted;
      ASSERT_LE(offer.endpoints.size(), endpoints_max);
      for (const auto& each : offer.endpoints) {
        EXPECT_GE(each.port, 1) << bit;
        EXPECT_GE(each.mtu_bytes, 256) << bit;
        EXPECT_LE(each.mtu_bytes, 4096) << bit;
        EXPECT_LE(each.prefix_bits, 128) << bit;
        EXPECT_EQ(each.link_layer, LinkLayer::ethernet) << bit;
        EXPECT_NE(each.gid_type, GidType::infiniband) << bit;
      }
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::corrupt) << bit;
    }
  }
  EXPECT_GT(accepted, 0) << "an address may be any";
}

}  // namespace
}  // namespace qpmesh::transport::verbs::selection
