// SPDX-License-Identifier: MIT
// Queue pairs connected by the RDMA communication manager, over the first usable device, looped
// back: two ranks of a job in two threads, and a rank of another job that calls one of them.
#include <gtest/gtest.h>
#include <sched.h>

#include <array>
#include <future>
#include <memory>
#include <string>

#include "base/log.hpp"
#include "base/system.hpp"
#include "qpmesh/error.hpp"
#include "transport/verbs/device.hpp"
#include "transport/verbs/selection/choice.hpp"
#include "transport/verbs/transport.hpp"

namespace qpmesh::test {
namespace {

using namespace transport::verbs;
using namespace transport::verbs::selection;
using transport::Notification;
using transport::Post;
using transport::Write;

struct Member {
  std::unique_ptr<VerbsTransport> transport;
  std::unique_ptr<transport::Connection> connection;  // goes first
};

class CmConnections : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      make_cm_connector(system_, log_, {});
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
    const Offer offer = make_offer(discover(system_), Wishes{}, "here");
    ASSERT_FALSE(offer.endpoints.empty()) << offer.why_none.cause;
    here_ = offer.endpoints.front();
  }
  Member member(std::uint64_t job, int rank) {
    auto transport = std::make_unique<VerbsTransport>(system_, log_,
                                                      Settings{.host = "here",
                                                               .port = {here_.device, here_.port},
                                                               .peers = 1,
                                                               .link_timeout_ms = 500,
                                                               .cm = JobMember{job, rank}});
    transport->rely_on(polled, polled);
    return {.transport = std::move(transport), .connection = nullptr};
  }
  PeerPaths paths() const {
    return {.peer_host = "here", .theirs = polled, .choices = {{here_, here_}}};
  }
  static void join(Member& member, int peer, BlobView address) {
    member.connection = member.transport->connect(peer, address);
  }
  Deadline in_20_s() const { return base::after_ms(system_, 20'000); }

  static constexpr Notifications polled{Notification::poll, Notification::poll, "tested"};
  base::System system_;
  base::Log log_;
  Endpoint here_;
};

TEST_F(CmConnections, carry_writes_both_ways_and_a_stranger_is_rejected) {
  constexpr std::uint64_t job = 0x5eed;
  Member low = member(job, 0);
  Member high = member(job, 1);
  Member stranger = member(job + 1, 0);
  const Blob of_low = low.transport->address_for(1, paths());
  const Blob of_high = high.transport->address_for(0, paths());
  stranger.transport->address_for(1, paths());
  join(low, 1, of_high);
  join(high, 0, of_low);
  join(stranger, 1, of_high);

  auto answering = std::async(std::launch::async, [&] { high.transport->make_ready(in_20_s()); });
  try {
    stranger.transport->make_ready(in_20_s());
    ADD_FAILURE() << "a rank of another job was connected";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::link_failed);
    EXPECT_NE(error.cause().find("REJECTED, status 28"), std::string::npos) << error.cause();
  }
  low.transport->make_ready(in_20_s());
  answering.get();

  std::array<std::array<std::byte, 64>, 2> memory{};
  const std::array both{&low, &high};
  std::array<transport::RemoteAddress, 2> address;
  for (const std::size_t side : {0U, 1U}) {
    address[side] =
        both[side]->transport->register_memory(memory[side], transport::RegionKind::lasting);
  }
  for (const std::size_t side : {0U, 1U}) {
    const std::array text{std::byte{42}, static_cast<std::byte>(side)};
    const std::array chain{Write{.head = text, .target = address[1 - side], .tell = true}};
    ASSERT_EQ(both[side]->connection->post(chain), Post::posted);
    const Deadline deadline = in_20_s();
    while (both[side]->connection->completed() < 1 && system_.now() < deadline) {
      both[side]->transport->progress();
      ::sched_yield();
    }
    EXPECT_EQ(both[side]->connection->completed(), 1U);
    EXPECT_EQ(memory[1 - side][0], std::byte{42});
    EXPECT_EQ(memory[1 - side][1], static_cast<std::byte>(side));
  }
}

TEST_F(CmConnections, that_nobody_asks_for_end_at_the_deadline) {
  Member low = member(1, 0);
  Member high = member(1, 1);
  const Blob of_low = low.transport->address_for(1, paths());
  high.transport->address_for(0, paths());
  join(high, 0, of_low);
  try {
    high.transport->make_ready(base::after_ms(system_, 200));
    ADD_FAILURE() << "connected to nobody";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::timeout);
    EXPECT_EQ(error.peer(), 0);
    EXPECT_NE(error.cause().find("rank 0 did not ask for its connection"), std::string::npos)
        << error.cause();
  }
}

TEST_F(CmConnections, are_refused_where_nobody_listens_any_more) {
  Member low = member(1, 0);
  auto high = std::make_unique<Member>(member(1, 1));
  low.transport->address_for(1, paths());
  const Blob of_high = high->transport->address_for(0, paths());
  high.reset();
  join(low, 1, of_high);
  try {
    low.transport->make_ready(in_20_s());
    ADD_FAILURE() << "connected to nobody";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::link_failed);
    EXPECT_NE(error.cause().find("nobody listens there"), std::string::npos) << error.cause();
  }
}

}  // namespace
}  // namespace qpmesh::test
