// SPDX-License-Identifier: MIT
// What qpmesh-info prints, of machines that were recorded.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "support/device_tables.hpp"
#include "tools/info/facts.hpp"
#include "transport/verbs/selection/rules.hpp"

namespace qpmesh::info {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Facts facts_of(std::string_view table) {
  return {.host = "alpha",
          .cores = {.cores = {0, 1, 2, 3, 8}, .quota = 0},
          .numa_nodes = {{.number = 0, .cores = {0, 1, 2, 3, 8}}},
          .locked_memory = {.limit_bytes = -1, .exempt = false, .peer_bytes = 64 * 1024},
          .devices = test::devices(table)};
}

constexpr std::string_view softroce = R"(
device rxe0 driver=rdma_rxe software vendor=0xffffff guid=0x42 reads=128
port 1 active ethernet mtu=4096 grh rate=2500
gid 0 fe80::406a:27ff:fe4c:e343 v2 d0
gid 1 10.77.0.1 v2 d0
netdev d0 up 10.77.0.1/24 fe80::406a:27ff:fe4c:e343/64
)";

constexpr std::string_view adapters = R"(
device mlx5_0 driver=mlx5_core vendor=0x2c9 part=4119 numa=0
port 1 down ethernet mtu=1024
gid 0 10.0.0.1 v2 ens2
device mlx5_1 driver=mlx5_core vendor=0x2c9 part=4123 numa=1
port 1 active infiniband mtu=2048 lid=12 rate=100000
gid 0 fe80::1 ib
netdev ens2 down 10.0.0.1/24
)";

// A processor where polling is not the default would say so.
std::string_view expected_notification() {
  return transport::verbs::selection::x86_host ? "    small messages polled, larger ones by "
                                                 "immediate: SoftRoCE copies writes in order\n"
                                               : "    small messages by immediate, larger ones by "
                                                 "immediate: this processor may see writes out "
                                                 "of "
                                                 "order\n";
}

TEST(text, of_softroce_shows_everything_and_marks_the_choice) {
  EXPECT_EQ(
      to_text(facts_of(softroce)),
      std::string{R"(host alpha: 5 usable cores (0-3,8), NUMA node 0 has cores 0-3,8
locked memory: have any amount, need 64 KiB a peer: 4 MiB for 64 of them
transports:
  shm    yes  between the ranks of one host
  verbs  yes  rxe0 port 1, GID 1 ::ffff:10.77.0.1 (RoCE v2, d0), MTU 4096
device rxe0: rdma_rxe, software, vendor 0xffffff part 0, firmware 1.2.3, node GUID 0000000000000042
  at most 65536 queue pairs, 16384 requests a queue, 32767 completions a queue, 32 entries a request, 128 reads out and 128 in
  no enhanced connection establishment (ECE)
  port 1: active, Ethernet, MTU 4096, messages up to 1 GiB
)"} + std::string{expected_notification()} +
          R"(    traffic class 106 (DSCP 26; the default), service level 0, flow label by the device, partition keys 0 (0xffff, used)
       GID  type     address                    interface  score
    *  1    RoCE v2  ::ffff:10.77.0.1           d0         -1700 = -2000 software device, +200 RoCE v2, +100 IPv4
       0    RoCE v2  fe80::406a:27ff:fe4c:e343  d0         -2100 = -2000 software device, +200 RoCE v2, -300 link-local
* would be chosen, where the peers can reach it: rxe0 port 1, GID 1 ::ffff:10.77.0.1 (RoCE v2, d0), MTU 4096
)");
}

TEST(text, of_several_devices_marks_one_choice_and_says_why_not_the_others) {
  const auto text = to_text(facts_of(adapters));
  EXPECT_THAT(
      text,
      AllOf(HasSubstr("device mlx5_0: mlx5_core, hardware, vendor 0x02c9 part 4119"),
            HasSubstr("NUMA node 1\n"), HasSubstr("ens2 (down)"), HasSubstr("no: the port is down"),
            HasSubstr("port 1: active, InfiniBand, MTU 2048, 100 Gb/s, LID 12"),
            HasSubstr("*  0    InfiniBand  fe80::1  -          1400 = +1400 InfiniBand\n")));
  EXPECT_EQ(text.find("    *"), text.rfind("    *"));
}

constexpr std::string_view production = R"(
device mlx5_0 driver=mlx5_core vendor=0x2c9 part=4129 ece=0x15b3:0x30000002
port 1 active ethernet mtu=4096 tclass=96
gid 3 10.0.0.1 v2 ens2
device mlx5_1 driver=mlx5_core vendor=0x2c9 part=4129
port 1 active infiniband mtu=4096 lid=12 pkeys=0x7fff,0,0x8012
gid 0 fe80::1 ib
netdev ens2 up 10.0.0.1/24
)";

TEST(text, shows_what_packets_carry_and_what_the_device_negotiates) {
  Facts facts = facts_of(production);
  EXPECT_THAT(
      to_text(facts),
      AllOf(HasSubstr("  enhanced connection establishment (ECE): 0x30000002 of vendor "
                      "0x15b3\n"),
            HasSubstr("    traffic class 96 (DSCP 24; the system's), service level 0, flow "
                      "label by the device, partition keys 0 (0xffff, used)\n"),
            HasSubstr("    traffic class 0 (DSCP 0; the default), service level 0, flow "
                      "label by the device, partition keys 0 (0x7fff), 2 (0x8012, used)\n")));
  facts.wishes.traffic_class = 104;
  facts.wishes.service_level = 3;
  facts.wishes.flow_label = 9;
  facts.wishes.pkey_index = 1;
  EXPECT_THAT(to_text(facts),
              AllOf(HasSubstr("    traffic class 104 (DSCP 26; QPMESH_TRAFFIC_CLASS), service "
                              "level 3, flow label 9, partition keys 0 (0x7fff), 2 (0x8012)\n"),
                    HasSubstr("no: QPMESH_PKEY_INDEX='1', allowed: 0 (0x7fff), 2 (0x8012)\n")));
}

TEST(json_object, shows_what_packets_carry_and_what_the_device_negotiates) {
  const auto whole = json::parse(to_json(facts_of(production)));
  EXPECT_EQ(whole["devices"][0]["ece"], json({{"vendor_id", 0x15b3}, {"options", 0x30000002}}));
  EXPECT_EQ(whole["devices"][1]["ece"], nullptr);
  EXPECT_EQ(whole["devices"][0]["ports"][0]["traffic_class"], 96);
  const auto& port = whole["devices"][1]["ports"][0];
  EXPECT_EQ(port["traffic_class"], nullptr);
  EXPECT_EQ(port["pkeys"],
            json::array({{{"index", 0}, {"pkey", 0x7fff}}, {{"index", 2}, {"pkey", 0x8012}}}));
  EXPECT_EQ(whole["choice"]["device"], "mlx5_1");
  EXPECT_EQ(whole["choice"]["traffic_class"], 0);
  EXPECT_EQ(whole["choice"]["service_level"], 0);
  EXPECT_EQ(whole["choice"]["flow_label"], 0);
  EXPECT_EQ(whole["choice"]["pkey_index"], 2);
  EXPECT_EQ(whole["choice"]["pkey"], 0x8012);
}

TEST(text, without_devices_says_so_and_what_to_do) {
  const auto text = to_text(facts_of(""));
  EXPECT_THAT(text, AllOf(HasSubstr("verbs  no   no RDMA device is visible"),
                          HasSubstr("RDMA cannot be used"), HasSubstr("docs/softroce.md"),
                          Not(HasSubstr("would be chosen"))));
}

TEST(text, of_a_device_that_cannot_be_read_gives_the_reason) {
  EXPECT_THAT(to_text(facts_of("device mlx5_0 driver=mlx5_core unreadable=EACCES")),
              AllOf(HasSubstr("device mlx5_0"), HasSubstr("cannot be read: EACCES"),
                    HasSubstr("RDMA cannot be used")));
}

TEST(text, of_a_build_without_rdma_says_so_and_shows_the_rest) {
  auto facts = facts_of("");
  facts.has_verbs = false;
  EXPECT_THAT(to_text(facts),
              AllOf(HasSubstr("5 usable cores"), HasSubstr("verbs  no   this build has no RDMA"),
                    Not(HasSubstr("RDMA cannot be used"))));
}

TEST(text, tells_the_remedy_only_where_too_little_memory_may_be_locked) {
  auto facts = facts_of(softroce);
  facts.locked_memory.limit_bytes = 64 * 1024;
  EXPECT_THAT(to_text(facts),
              AllOf(HasSubstr("have 64 KiB, need 64 KiB a peer: 4 MiB for 64 of them"),
                    HasSubstr("ulimit -l unlimited"), HasSubstr("LimitMEMLOCK=infinity")));
  facts.locked_memory.exempt = true;
  EXPECT_THAT(to_text(facts), AllOf(HasSubstr("CAP_IPC_LOCK"), Not(HasSubstr("ulimit"))));
  facts.locked_memory = {.limit_bytes = 4 << 20, .exempt = false, .peer_bytes = 64 * 1024};
  EXPECT_THAT(to_text(facts), Not(HasSubstr("ulimit")));
}

TEST(text, counts_a_quota) {
  auto facts = facts_of("");
  facts.cores.quota = 2;
  EXPECT_THAT(to_text(facts), HasSubstr("2 usable cores (0-3,8), a quota of 2"));
}

TEST(text, follows_the_wishes) {
  auto facts = facts_of(softroce);
  facts.wishes.gid_index = 0;
  EXPECT_THAT(to_text(facts), AllOf(HasSubstr("*  0    RoCE v2  fe80::"),
                                    HasSubstr("no: QPMESH_GID_INDEX asks for 0")));
}

TEST(json_object, of_softroce_holds_the_same_as_the_text) {
  const auto whole = json::parse(to_json(facts_of(softroce)));
  EXPECT_EQ(whole["host"], "alpha");
  EXPECT_EQ(whole["usable_cores"]["count"], 5);
  EXPECT_EQ(whole["usable_cores"]["cores"], json({0, 1, 2, 3, 8}));
  EXPECT_EQ(whole["usable_cores"]["quota"], nullptr);
  EXPECT_EQ(whole["numa_nodes"][0]["number"], 0);
  EXPECT_EQ(whole["locked_memory"]["limit_bytes"], nullptr);
  EXPECT_EQ(whole["locked_memory"]["needed_bytes"], 4 << 20);
  EXPECT_EQ(whole["locked_memory"]["enough"], true);
  EXPECT_EQ(whole["transports"][1]["name"], "verbs");
  EXPECT_EQ(whole["transports"][1]["usable"], true);
  const auto& device = whole["devices"][0];
  EXPECT_EQ(device["name"], "rxe0");
  EXPECT_EQ(device["software"], true);
  EXPECT_EQ(device["protocol"], "InfiniBand");
  EXPECT_EQ(device["node_guid"], "0000000000000042");
  EXPECT_EQ(device["numa_node"], nullptr);
  EXPECT_EQ(device["limits"]["queue_pairs_max"], 65536);
  const auto& port = device["ports"][0];
  EXPECT_EQ(port["mtu_bytes"], 4096);
  EXPECT_EQ(port["link_layer"], "Ethernet");
  EXPECT_EQ(port["notification"]["small"],
            transport::verbs::selection::x86_host ? "poll" : "immediate");
  EXPECT_EQ(port["notification"]["medium"], "immediate");
  ASSERT_EQ(port["gids"].size(), 2U);
  EXPECT_EQ(port["gids"][0]["index"], 1) << "the best first";
  EXPECT_EQ(port["gids"][0]["score"], -1700);
  EXPECT_EQ(port["gids"][0]["score_terms"][0],
            json({{"name", "software device"}, {"points", -2000}}));
  EXPECT_EQ(port["gids"][1]["gid"], "fe80::406a:27ff:fe4c:e343");
  EXPECT_EQ(whole["choice"]["device"], "rxe0");
  EXPECT_EQ(whole["choice"]["gid_index"], 1);
  EXPECT_EQ(whole["cause"], nullptr);
}

TEST(json_object, of_a_refused_gid_has_the_reason_instead_of_a_score) {
  const auto whole = json::parse(to_json(facts_of(adapters)));
  const auto& refused = whole["devices"][0]["ports"][0]["gids"][0];
  EXPECT_EQ(refused["usable"], false);
  EXPECT_EQ(refused["score"], nullptr);
  EXPECT_EQ(refused["refused"], "the port is down");
  EXPECT_EQ(refused["netdev_up"], false);
  const auto& chosen = whole["devices"][1]["ports"][0]["gids"][0];
  EXPECT_EQ(chosen["usable"], true);
  EXPECT_EQ(chosen["netdev"], nullptr);
  EXPECT_EQ(whole["devices"][1]["ports"][0]["rate_mbps"], 100000);
  EXPECT_EQ(whole["choice"]["device"], "mlx5_1");
}

TEST(json_object, without_devices_has_cause_and_hint_instead_of_a_choice) {
  const auto whole = json::parse(to_json(facts_of("")));
  EXPECT_EQ(whole["devices"], json::array());
  EXPECT_EQ(whole["choice"], nullptr);
  EXPECT_EQ(whole["cause"], "no RDMA device is visible to this process");
  EXPECT_FALSE(whole["hint"].is_null());
}

struct Outcome {
  int code = -1;
  std::string output;
};

Outcome run(const std::string& before, const std::string& arguments) {
  const auto command =
      fmt::format("{} {}/bin/qpmesh-info {}", before, QPMESH_BINARY_DIR, arguments);
  std::FILE* const pipe = ::popen(command.c_str(), "r");
  Outcome outcome;
  std::array<char, 4096> part{};
  while (const auto count = std::fread(part.data(), 1, part.size(), pipe))
    outcome.output.append(part.data(), count);
  const int status = ::pclose(pipe);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

TEST(the_program, tells_about_this_machine_whatever_it_is) {
  const auto [code, output] = run("", "");
  EXPECT_EQ(code, 0) << output;
  EXPECT_THAT(output, AllOf(HasSubstr("usable cores"), HasSubstr("locked memory"),
                            HasSubstr("transports")));
}

TEST(the_program, prints_json_that_can_be_read) {
  const auto [code, output] = run("", "--json");
  EXPECT_EQ(code, 0) << output;
  const auto whole = json::parse(output);
  EXPECT_GE(whole["usable_cores"]["count"], 1);
  EXPECT_TRUE(whole["devices"].is_array());
}

TEST(the_program, has_failed_where_its_report_is_lost) {
  const auto [code, output] = run("", "2>&1 >/dev/full");
  EXPECT_EQ(code, 1);
  EXPECT_EQ(output, "the report cannot be written: No space left on device\n");
}

TEST(the_program, refuses_wishes_and_addresses_that_it_cannot_read) {
  const auto subnet = run("QPMESH_SUBNET=10.0.0.0", "2>&1");
  EXPECT_EQ(subnet.code, 1);
  EXPECT_THAT(subnet.output, HasSubstr("QPMESH_SUBNET='10.0.0.0'"));
  const auto address = run("", "--address nowhere 2>&1");
  EXPECT_EQ(address.code, 2);
  EXPECT_THAT(address.output, HasSubstr("nowhere"));
  EXPECT_EQ(run("", "--unknown 2>&1").code, 2);
  EXPECT_EQ(run("", "--help").code, 0);
}

TEST(the_program, measures_and_explains_which_algorithm_runs_a_call) {
  const auto [code, output] = run("", "--explain allreduce 64KiB --ranks 2");
  EXPECT_EQ(code, 0) << output;
  EXPECT_THAT(output,
              AllOf(HasSubstr("allreduce of 64 KiB by 2 ranks, 2 of them on this node"),
                    HasSubstr("\n> "), HasSubstr("does not apply here"), HasSubstr(" runs: ")));
}

TEST(the_program, explains_what_was_forced_and_rounds_up_to_whole_blocks) {
  const auto [code, output] =
      run("QPMESH_ALGORITHMS=alltoall=all_pairs", "--explain alltoall 1000 --ranks 3 --json");
  EXPECT_EQ(code, 0) << output;
  const auto whole = json::parse(output);
  EXPECT_EQ(whole["bytes"], 1008);
  EXPECT_EQ(whole["ranks"], 3);
  EXPECT_EQ(whole["algorithm"], "all_pairs");
  EXPECT_EQ(whole["why"], "QPMESH_ALGORITHMS=alltoall=all_pairs names it");
  EXPECT_EQ(std::ranges::count_if(whole["rows"], [](const json& row) { return row["chosen"]; }), 1);
}

TEST(the_program, refuses_to_explain_what_is_no_call) {
  const auto name = run("", "--explain bcast 8 2>&1");
  EXPECT_EQ(name.code, 1);
  EXPECT_THAT(name.output, AllOf(HasSubstr("'bcast' is no collective"), HasSubstr("broadcast")));
  EXPECT_THAT(run("", "--explain allreduce 1M 2>&1").output,
              HasSubstr("'1M' is no number of bytes"));
  EXPECT_THAT(run("", "--explain allreduce 2>&1").output, HasSubstr("as 8, 64KiB or 1MiB"));
  EXPECT_EQ(run("", "--ranks 2 2>&1").code, 2);
}

}  // namespace
}  // namespace qpmesh::info
