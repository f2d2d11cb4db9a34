// SPDX-License-Identifier: MIT
// Every completion status and event has a message of its own, and a link that fails names both its
// ends.
#include "transport/verbs/diagnosis/statuses.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>

#include "base/system.hpp"
#include "support/device_tables.hpp"
#include "transport/verbs/libraries/libraries.hpp"

namespace qpmesh::transport::verbs::diagnosis {
namespace {

using namespace selection;

using test::gid;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Endpoint endpoint(const char* device, const char* address, int index) {
  return {.device = device,
          .port = 1,
          .link_layer = LinkLayer::ethernet,
          .gid_index = index,
          .gid = gid(address),
          .gid_type = GidType::roce_v2,
          .netdev = "ens2",
          .mtu_bytes = 4096};
}
LinkDescription link_of_hosts() {
  return {.local = {"alpha", endpoint("mlx5_0", "10.0.0.1", 3), 0x11},
          .peer = {"beta", endpoint("mlx5_1", "10.0.0.2", 5), 0x22},
          .timers = {}};
}

TEST(status_table, is_the_table_of_docs_protocol_md) {
  std::ifstream file{std::string{QPMESH_SOURCE_DIR} + "/docs/protocol.md"};
  const std::string page{std::istreambuf_iterator<char>{file}, {}};
  for (const auto& row : status_table()) {
    EXPECT_THAT(page, HasSubstr(fmt::format("| `{}` | {} | {} | {} |", row.name, row.meaning,
                                            row.cause, row.hint)));
  }
  for (const auto& row : event_table())
    EXPECT_THAT(page,
                HasSubstr(fmt::format("| `{}` | {} | {} |", row.name, row.meaning, row.hint)));
}

TEST(status_table, has_each_status_once_and_every_other_one_is_told_by_verbs_own_words) {
  ASSERT_EQ(ibverbs_missing(), "");
  std::set<int> found;
  for (const auto& row : status_table()) EXPECT_TRUE(found.insert(row.status).second) << row.name;
  for (int status = IBV_WC_SUCCESS + 1; status <= IBV_WC_TM_RNDV_INCOMPLETE; ++status) {
    if (found.contains(status)) continue;
    const auto code = static_cast<ibv_wc_status>(status);
    const auto [cause, hint] = describe(code, 0x81, "RDMA write", link_of_hosts());
    EXPECT_THAT(cause, AllOf(HasSubstr(fmt::format("status {} ", status)),
                             HasSubstr(ibv_wc_status_str(code)), HasSubstr("vendor error 0x81"),
                             HasSubstr("host beta")));
    EXPECT_FALSE(hint.empty());
  }
}

TEST(status_table, gives_each_status_a_message_of_its_own) {
  std::set<std::string> messages;
  std::set<std::string_view> meanings;
  for (const auto& row : status_table()) {
    EXPECT_FALSE(row.name.empty() || row.meaning.empty() || row.cause.empty() || row.hint.empty())
        << row.name;
    EXPECT_TRUE(meanings.insert(row.meaning).second) << row.meaning;
    const auto [cause, hint] = describe(row.status, 0x81, "RDMA write", link_of_hosts());
    EXPECT_TRUE(messages.insert(cause).second) << cause;
    EXPECT_THAT(cause, AllOf(HasSubstr("RDMA write failed with"), HasSubstr(std::string{row.name}),
                             HasSubstr(fmt::format("status {},", static_cast<int>(row.status))),
                             HasSubstr("vendor error 0x81"), HasSubstr(std::string{row.meaning})));
    EXPECT_FALSE(hint.empty());
  }
}

TEST(status_table, spells_the_names_as_verbs_do) {
  EXPECT_EQ(std::ranges::count(status_table(), "RETRY_EXC_ERR", &StatusRow::name), 1);
  for (const auto& row : status_table())
    EXPECT_EQ(row.name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_"), std::string_view::npos)
        << row.name;
}

TEST(event_table, has_each_event_once_and_a_message_for_every_one) {
  std::set<int> found;
  std::set<std::string> messages;
  for (const auto& row : event_table()) {
    EXPECT_TRUE(found.insert(row.event).second) << row.name;
    const auto [cause, hint] = describe(row.event, "mlx5_0", 1);
    EXPECT_TRUE(messages.insert(cause).second) << cause;
    EXPECT_THAT(cause, AllOf(HasSubstr("mlx5_0 port 1"), HasSubstr(std::string{row.name})));
    EXPECT_EQ(hint.empty(), row.severity == Severity::harmless) << row.name;
    EXPECT_EQ(severity_of(row.event), row.severity);
  }
  ASSERT_EQ(ibverbs_missing(), "");
  for (int event = IBV_EVENT_CQ_ERR; event <= IBV_EVENT_WQ_FATAL; ++event) {
    if (found.contains(event)) continue;
    const auto code = static_cast<ibv_event_type>(event);
    EXPECT_THAT(describe(code, "mlx5_0", 1).cause, HasSubstr(ibv_event_type_str(code)));
    EXPECT_EQ(severity_of(code), Severity::suspicious);
  }
}

TEST(event_table, knows_what_an_event_costs) {
  for (const auto event : {IBV_EVENT_QP_FATAL, IBV_EVENT_QP_REQ_ERR, IBV_EVENT_QP_ACCESS_ERR})
    EXPECT_EQ(severity_of(event), Severity::connection);
  for (const auto event : {IBV_EVENT_CQ_ERR, IBV_EVENT_DEVICE_FATAL})
    EXPECT_EQ(severity_of(event), Severity::context);
  for (const auto event : {IBV_EVENT_PORT_ERR, IBV_EVENT_GID_CHANGE, IBV_EVENT_LID_CHANGE})
    EXPECT_EQ(severity_of(event), Severity::suspicious);
  for (const auto event : {IBV_EVENT_COMM_EST, IBV_EVENT_PORT_ACTIVE})
    EXPECT_EQ(severity_of(event), Severity::harmless);
}

TEST(event_table, knows_the_port_of_what_concerns_one) {
  ibv_async_event event{};
  for (const auto type :
       {IBV_EVENT_PORT_ACTIVE, IBV_EVENT_PORT_ERR, IBV_EVENT_LID_CHANGE, IBV_EVENT_PKEY_CHANGE,
        IBV_EVENT_SM_CHANGE, IBV_EVENT_CLIENT_REREGISTER, IBV_EVENT_GID_CHANGE}) {
    event.event_type = type;
    event.element.port_num = 2;
    EXPECT_EQ(port_of(event), 2);
  }
  ibv_qp queue_pair{};
  event.element.qp = &queue_pair;
  for (const auto type : {IBV_EVENT_QP_FATAL, IBV_EVENT_DEVICE_FATAL, IBV_EVENT_CQ_ERR}) {
    event.event_type = type;
    EXPECT_EQ(port_of(event), 0);
  }
}

// A value of a later libibverbs, as it comes from a device: behind the compiler's back.
template <class Enum>
Enum later_value(int value) {
  static_assert(sizeof(Enum) == sizeof value);
  Enum later{};
  std::memcpy(&later, &value, sizeof value);
  return later;
}

TEST(a_status_or_event, that_is_not_known_is_told_by_its_number) {
  const auto [cause, hint] =
      describe(later_value<ibv_wc_status>(31), 7, "RDMA write", link_of_hosts());
  EXPECT_THAT(cause,
              AllOf(HasSubstr("status 31"), HasSubstr("vendor error 0x7"), HasSubstr("host beta")));
  EXPECT_FALSE(hint.empty());
  EXPECT_THAT(describe(later_value<ibv_event_type>(31), "mlx5_0", 0).cause,
              AllOf(HasSubstr("mlx5_0: event 31"), Not(HasSubstr("port"))));
  EXPECT_EQ(severity_of(later_value<ibv_event_type>(31)), Severity::suspicious);
}

TEST(a_link, is_described_by_host_device_port_gid_type_mtu_and_queue_pair_of_both_ends) {
  EXPECT_EQ(
      to_string(link_of_hosts()),
      "host alpha, mlx5_0 port 1, GID 3 ::ffff:10.0.0.1 (RoCE v2, ens2), MTU 4096, QP 0x11 to "
      "host beta, mlx5_1 port 1, GID 5 ::ffff:10.0.0.2 (RoCE v2, ens2), MTU 4096, QP 0x22");
}

TEST(the_communication_manager, names_its_event_its_status_and_both_ends) {
  const auto unreachable = describe(RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, link_of_hosts());
  EXPECT_THAT(unreachable.cause,
              AllOf(HasSubstr("the peer does not answer (UNREACHABLE, status -110: "),
                    HasSubstr(base::describe_errno(ETIMEDOUT)),
                    HasSubstr("host alpha, mlx5_0 port 1"), HasSubstr("host beta, mlx5_1 port 1")));
  EXPECT_THAT(unreachable.hint, HasSubstr("UDP port 4791"));
  const auto refused = describe(RDMA_CM_EVENT_REJECTED, 28, link_of_hosts());
  EXPECT_THAT(refused.cause,
              HasSubstr("(REJECTED, status 28: the request was not one that this rank of the job"));
  EXPECT_THAT(refused.hint, HasSubstr("QPMESH_CONNECT=exchange"));
  EXPECT_THAT(describe(RDMA_CM_EVENT_REJECTED, 8, link_of_hosts()).cause,
              HasSubstr("nobody listens there"));
  EXPECT_THAT(describe(RDMA_CM_EVENT_REJECTED, 99, link_of_hosts()).cause,
              HasSubstr("status 99: see the driver"));
  EXPECT_THAT(describe(RDMA_CM_EVENT_MULTICAST_JOIN, 0, link_of_hosts()).cause,
              HasSubstr("an event that was not awaited (RDMA_CM_EVENT_MULTICAST_JOIN"));
}

TEST(a_peer_that_does_not_answer, is_told_with_the_time_and_commands_ready_to_be_copied) {
  const auto [cause, hint] = describe(IBV_WC_RETRY_EXC_ERR, 0x81, "RDMA write", link_of_hosts());
  EXPECT_THAT(
      cause, AllOf(HasSubstr("did not answer for about 1073 ms (8 tries)"), HasSubstr("host alpha"),
                   HasSubstr("host beta"), Not(HasSubstr("MTUs differ"))));
  EXPECT_THAT(hint, AllOf(HasSubstr("peer's process"),
                          HasSubstr("on host alpha: ping -c 3 -M do -s 4128 -I ens2 10.0.0.2"),
                          HasSubstr("UDP port 4791"),
                          HasSubstr("on host beta: ib_write_lat -d mlx5_1 -i 1 -x 5"),
                          HasSubstr("on host alpha: ib_write_lat -d mlx5_0 -i 1 -x 3 beta")));
  EXPECT_THAT(hint, AllOf(Not(HasSubstr("link-local")), Not(HasSubstr("SoftRoCE"))));
}

TEST(a_peer_that_does_not_answer, over_ports_of_different_mtu_may_be_a_matter_of_mtu) {
  auto link = link_of_hosts();
  link.peer.endpoint.mtu_bytes = 1024;
  const auto [cause, hint] = describe(IBV_WC_RETRY_EXC_ERR, 0, "RDMA write", link);
  EXPECT_THAT(cause, HasSubstr("MTUs differ (4096 and 1024), 1024 is used"));
  EXPECT_THAT(hint, HasSubstr("-s 1056"));
}

TEST(a_peer_that_does_not_answer, over_softroce_may_be_slow) {
  auto link = link_of_hosts();
  link.local.endpoint.software = true;
  link.timers = timers_for(link.local.endpoint, 0);
  const auto [cause, hint] = describe_silence("RDMA requests were repeated for 8000 ms", link);
  EXPECT_THAT(
      cause,
      HasSubstr(
          "RDMA requests were repeated for 8000 ms: the peer's device does not answer; host"));
  EXPECT_THAT(hint, HasSubstr("raise QPMESH_LINK_TIMEOUT_MS"));
}

TEST(a_peer_that_does_not_answer, over_link_local_gids_is_pinged_through_its_interface) {
  auto link = link_of_hosts();
  link.local.endpoint.gid = gid("fe80::1");
  link.peer.endpoint.gid = gid("fe80::2");
  const auto [cause, hint] = describe(IBV_WC_RETRY_EXC_ERR, 0, "RDMA write", link);
  EXPECT_THAT(hint, AllOf(HasSubstr("fe80::2%ens2"), HasSubstr("the GIDs are link-local")));
}

TEST(a_peer_that_does_not_answer, over_roce_v1_needs_no_udp_port_but_one_segment) {
  auto link = link_of_hosts();
  link.local.endpoint.gid_type = link.peer.endpoint.gid_type = GidType::roce_v1;
  const auto [cause, hint] = describe(IBV_WC_RETRY_EXC_ERR, 0, "RDMA write", link);
  EXPECT_THAT(hint, AllOf(HasSubstr("one Ethernet segment"), Not(HasSubstr("4791"))));
}

TEST(a_peer_that_does_not_answer, over_infiniband_is_looked_for_by_its_lid) {
  auto link = link_of_hosts();
  for (auto* end : {&link.local, &link.peer}) {
    end->endpoint.link_layer = LinkLayer::infiniband;
    end->endpoint.gid_type = GidType::infiniband;
    end->endpoint.netdev.clear();
  }
  link.peer.endpoint.lid = 12;
  const auto [cause, hint] = describe(IBV_WC_RETRY_EXC_ERR, 0, "RDMA write", link);
  EXPECT_THAT(cause, HasSubstr("LID 12"));
  EXPECT_THAT(hint, AllOf(HasSubstr("ibportstate -C mlx5_0 12 1"),
                          HasSubstr("ib_write_lat -d mlx5_1 -i 1;"), Not(HasSubstr("ping")),
                          Not(HasSubstr("4791"))));
}

TEST(a_step_of_bring_up, that_failed_is_told_with_both_ends_and_what_to_look_at) {
  for (const int error :
       {EINVAL, ENETUNREACH, EHOSTUNREACH, ETIMEDOUT, ENODEV, ENOMEM, EPERM, EIO}) {
    const auto [cause, hint] = describe_bring_up("INIT to RTR", error, link_of_hosts());
    EXPECT_THAT(cause, AllOf(HasSubstr("INIT to RTR failed"), HasSubstr("host alpha"),
                             HasSubstr("host beta")));
    EXPECT_FALSE(hint.empty()) << error;
  }
  EXPECT_THAT(describe_bring_up("INIT to RTR", ENETUNREACH, link_of_hosts()).hint,
              HasSubstr("ip route get 10.0.0.2"));
  EXPECT_THAT(describe_bring_up("INIT to RTR", ETIMEDOUT, link_of_hosts()).hint, HasSubstr("ping"));
}

TEST(bring_up, whose_short_write_alone_came_back_names_the_mtu_of_both_interfaces) {
  const auto link = link_of_hosts();
  const auto [cause, hint] =
      describe_cut_path(link, describe(IBV_WC_RETRY_EXC_ERR, 0, "RDMA write", link));
  EXPECT_THAT(cause, AllOf(HasSubstr("a short packet was answered, one of 4096 bytes was not"),
                           HasSubstr("host alpha"), HasSubstr("host beta")));
  EXPECT_THAT(hint, AllOf(HasSubstr("on host alpha: ip link set ens2 mtu 1500"),
                          HasSubstr("on host beta: ip link set ens2 mtu 1500"),
                          HasSubstr("ping -c 3 -M do")));
}

TEST(bring_up, that_met_silence_names_both_ends_and_the_path) {
  const auto [cause, hint] = describe_silence("first write", link_of_hosts());
  EXPECT_THAT(cause,
              AllOf(HasSubstr("first write"), HasSubstr("does not answer"), HasSubstr("QP 0x22")));
  EXPECT_THAT(hint, HasSubstr("UDP port 4791"));
}

}  // namespace
}  // namespace qpmesh::transport::verbs::diagnosis
