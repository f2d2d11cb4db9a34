// SPDX-License-Identifier: MIT
// Ranks on two hosts with networks of their own, which takes root: how they meet, and how they
// notice that the cable was cut.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <array>
#include <chrono>
#include <map>
#include <memory>
#include <string>

#include "bootstrap/endpoint.hpp"
#include "bootstrap/star.hpp"
#include "tests/support/met_rank.hpp"
#include "tests/support/tampered_bootstrap.hpp"
#include "tests/support/thread_bootstrap.hpp"
#include "tests/support/two_hosts.hpp"

namespace {

using namespace qpmesh;
using base::ControlEvent;
using bootstrap::HostPort;
using Addresses = std::vector<HostPort>;
using std::chrono::milliseconds;
using test::MetRank;
using test::run_ranks;
using test::ThreadBootstrap;
using test::ThreadGathering;
using test::TwoHosts;

// The TCP bootstrap in a form that can be tampered with: Tampered derives from what it spoils.
class TcpStar : public Bootstrap {
 public:
  TcpStar(int rank, int size, const base::System& system, const base::Log& log)
      : star_{bootstrap::make_star({.rank = rank, .size = size},
                                   bootstrap::tcp_endpoint({TwoHosts::addresses[0], 4000},
                                                           "two hosts", "the test", system),
                                   system, log)} {}

  int rank() const override { return star_->rank(); }
  int size() const override { return star_->size(); }
  std::vector<Blob> all_gather(BlobView mine, Deadline deadline) override {
    return star_->all_gather(mine, deadline);
  }
  std::string local_address() const override { return star_->local_address(); }

 private:
  std::unique_ptr<Bootstrap> star_;
};

class RanksOnTwoHosts : public testing::Test {
 protected:
  void SetUp() override {
    if (!hosts_.problem().empty()) GTEST_SKIP() << hosts_.problem();
  }

  // What a rank on each host is told when the two cannot meet.
  std::vector<std::optional<Error>> errors_of_meeting() {
    ThreadGathering gathering{2};
    return run_ranks(2, [&](int rank) {
      hosts_.enter(rank);
      ThreadBootstrap ranks{gathering, rank};
      MetRank me;
      me.meet(ranks, {}, 1000);
    });
  }
  static std::vector<ControlEvent> events(base::ControlChannel& control, std::size_t count,
                                          int timeout_ms) {
    std::vector<ControlEvent> all = control.poll();
    pollfd wake{.fd = control.wake_descriptor(), .events = POLLIN, .revents = 0};
    while (all.size() < count && ::poll(&wake, 1, timeout_ms) == 1) {
      for (ControlEvent& event : control.poll()) all.push_back(std::move(event));
    }
    return all;
  }
  static void greet_and_leave(MetRank& me, int rank, int size) {
    base::ControlChannel& control = *me.meeting->control;
    for (int peer = 0; peer < size; ++peer) {
      if (peer != rank) control.send(peer, Blob(100, static_cast<std::byte>(rank)));
    }
    std::map<int, std::vector<ControlEvent::Kind>> heard;
    const auto hear = [&](std::size_t count) {
      for (const ControlEvent& event : events(control, count, 5000)) {
        heard[event.peer].push_back(event.kind);
        if (event.kind == ControlEvent::Kind::frame) {
          EXPECT_EQ(event.bytes, Blob(100, static_cast<std::byte>(event.peer)));
        }
      }
    };
    const auto others = static_cast<std::size_t>(size - 1);
    hear(others);
    control.say_goodbye(base::after_ms(me.healthy, 5000));
    std::size_t so_far = 0;
    for (const auto& [peer, kinds] : heard) so_far += kinds.size();
    hear(2 * others - so_far);
    EXPECT_EQ(heard.size(), others);
    for (const auto& [peer, kinds] : heard)
      EXPECT_THAT(kinds,
                  testing::ElementsAre(ControlEvent::Kind::frame, ControlEvent::Kind::goodbye));
  }

  TwoHosts hosts_;
};

TEST_F(RanksOnTwoHosts, that_met_over_tcp_reach_each_other_at_the_addresses_that_they_met_by) {
  constexpr int size = 4;  // by turns
  const auto errors = run_ranks(size, [&](int rank) {
    hosts_.enter(rank % 2);
    MetRank me;
    test::Tampered<TcpStar> ranks{rank, size, me.healthy, me.log};
    ranks.heard_addresses = [](std::span<const Addresses> addresses) {
      for (std::size_t peer = 0; peer < addresses.size(); ++peer) {
        ASSERT_EQ(addresses[peer].size(), 1U);
        EXPECT_EQ(addresses[peer][0].host, TwoHosts::addresses[peer % 2]);
      }
    };
    me.meet(ranks);
    EXPECT_EQ(ranks.gathers, 3);
    ASSERT_EQ(me.meeting->local_peers.size(), 1U);
    EXPECT_EQ(me.meeting->local_peers[0].rank, (rank + 2) % size);
    for (int peer = 0; peer < size; ++peer)
      EXPECT_EQ(me.meeting->ranks[static_cast<std::size_t>(peer)].node, peer % 2);
    greet_and_leave(me, rank, size);
    ranks.all_gather({}, base::after_ms(me.healthy, 10'000));
  });
  for (const auto& error : errors) EXPECT_FALSE(error) << error->what();
}

TEST_F(RanksOnTwoHosts, that_met_elsewhere_find_an_address_that_the_hosts_share) {
  // What host 0 lists first lies behind a gateway that does not exist: packets to it vanish.
  hosts_.ip(0, {"addr", "add", "10.88.0.1/32", "dev", "lo"});
  hosts_.ip(1, {"route", "add", "10.88.0.0/24", "via", "10.77.0.99"});
  // The second one is of no network that host 1 knows.
  hosts_.ip(0, {"addr", "add", "10.99.0.1/32", "dev", "lo"});
  ASSERT_EQ(hosts_.problem(), "");
  ThreadGathering gathering{2};
  const auto errors = run_ranks(2, [&](int rank) {
    hosts_.enter(rank);
    test::Tampered<ThreadBootstrap> ranks{gathering, rank};
    ranks.heard_addresses = [](std::span<const Addresses> addresses) {
      std::vector<std::string> told;
      for (const HostPort& address : addresses[0]) told.push_back(address.host);
      EXPECT_THAT(told, testing::ElementsAre("10.88.0.1", "10.99.0.1", TwoHosts::addresses[0]));
    };
    MetRank me;
    me.options.handshake_timeout_ms = 200;
    me.meet(ranks);
    greet_and_leave(me, rank, 2);
    ranks.all_gather({}, base::after_ms(me.healthy, 10'000));
  });
  for (const auto& error : errors) EXPECT_FALSE(error) << error->what();
}

TEST_F(RanksOnTwoHosts, that_cannot_reach_each_other_say_so_on_both_and_name_what_was_tried) {
  hosts_.ip(0, {"addr", "flush", "dev", "cable"});
  hosts_.ip(0, {"addr", "add", "10.88.0.1/24", "dev", "cable"});
  ASSERT_EQ(hosts_.problem(), "");
  const auto errors = errors_of_meeting();
  for (const auto& error : errors) {
    ASSERT_TRUE(error);
    EXPECT_STREQ(error->what(), errors.front()->what());
    EXPECT_EQ(error->code(), ErrorCode::link_failed);
    EXPECT_EQ(error->peer(), 0);
    EXPECT_THAT(error->cause(),
                testing::ContainsRegex(
                    "cannot reach rank 0 .*; tried 10.88.0.1:[0-9]+ \\(Network is unreachable\\)"));
  }
}

TEST_F(RanksOnTwoHosts, without_an_address_say_so) {
  hosts_.ip(1, {"link", "set", "cable", "down"});
  ASSERT_EQ(hosts_.problem(), "");
  const auto errors = errors_of_meeting();
  for (const auto& error : errors) {
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::no_resource);
    EXPECT_THAT(error->cause(),
                testing::HasSubstr("has no address at which ranks of other hosts could reach"));
  }
}

// No packet tells of it. One side is idle, the other one sends: different timers of TCP.
void expect_death_of_both(TwoHosts& hosts, std::int64_t link_timeout_ms, milliseconds least,
                          milliseconds most) {
  ThreadGathering gathering{2};
  const auto errors = run_ranks(2, [&](int rank) {
    hosts.enter(rank);
    ThreadBootstrap ranks{gathering, rank};
    MetRank me;
    me.options.link_timeout_ms = link_timeout_ms;
    me.meet(ranks);
    base::ControlChannel& control = *me.meeting->control;
    ranks.all_gather({}, base::after_ms(me.healthy, 10'000));
    if (rank == 0) hosts.cut();
    ranks.all_gather({}, base::after_ms(me.healthy, 10'000));
    const auto begin = std::chrono::steady_clock::now();
    if (rank == 0) control.send(1, Blob(100));
    std::vector<ControlEvent> ended = control.poll();
    pollfd wake{.fd = control.wake_descriptor(), .events = POLLIN, .revents = 0};
    while (ended.empty() && ::poll(&wake, 1, 15'000) == 1) ended = control.poll();
    const auto taken = std::chrono::steady_clock::now() - begin;
    ASSERT_EQ(ended.size(), 1U);
    EXPECT_EQ(ended[0].kind, ControlEvent::Kind::death);
    EXPECT_THAT(ended[0].detail, testing::StartsWith("nothing came from host "));
    EXPECT_TRUE(ended[0].host_is_silent);
    EXPECT_THAT(ended[0].detail,
                testing::HasSubstr(TwoHosts::addresses[static_cast<std::size_t>(1 - rank)]));
    EXPECT_GT(taken, least);
    EXPECT_LT(taken, most);
    ranks.all_gather({}, base::after_ms(me.healthy, 20'000));
  });
  for (const auto& error : errors) EXPECT_FALSE(error) << error->what();
}

TEST_F(RanksOnTwoHosts, take_each_other_for_dead_within_ten_seconds_after_the_cable_was_cut) {
  // So long a hypervisor may stop a host.
  expect_death_of_both(hosts_, 0, milliseconds{5'000}, milliseconds{10'500});
}

TEST_F(RanksOnTwoHosts, take_each_other_for_dead_when_the_link_timeout_has_passed) {
  expect_death_of_both(hosts_, 1'500, milliseconds{1'000}, milliseconds{4'500});
}

}  // namespace
