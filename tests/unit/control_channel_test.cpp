// Two ends of a control channel in one process, and ends that a test plays by hand.
#include "bootstrap/control_channel.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <memory>

#include "base/bytes.hpp"
#include "bootstrap/local_socket.hpp"

namespace {

using namespace qpmesh;
using base::ControlEvent;
using bootstrap::ControlLink;
using bootstrap::UnixControlChannel;

constexpr int us = 4;    // the rank whose channel is tested, as the peer knows it
constexpr int them = 7;  // its peer

class ControlChannel : public testing::Test {
 protected:
  ControlChannel() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()), 0);
    channel_ = open(them, base::UniqueFd{ends[0]});
    far_.reset(ends[1]);
  }

  std::unique_ptr<UnixControlChannel> open(int peer, base::UniqueFd socket) {
    std::vector<ControlLink> links;
    links.push_back(
        {.peer = peer, .pid = 4242, .host = "elsewhere", .socket = std::move(socket), .pidfd = {}});
    return std::make_unique<UnixControlChannel>(system_, std::move(links));
  }
  std::unique_ptr<UnixControlChannel> other_end() { return open(us, std::move(far_)); }

  static Blob frame(std::size_t bytes, int value) { return Blob(bytes, static_cast<std::byte>(value)); }
  static bool readable(const UnixControlChannel& channel, int timeout_ms = 0) {
    pollfd wake{.fd = channel.wake_descriptor(), .events = POLLIN, .revents = 0};
    return ::poll(&wake, 1, timeout_ms) == 1;
  }
  void far_writes(std::uint32_t bytes, std::uint8_t kind, std::size_t payload_bytes = 0) {
    base::ByteWriter writer;
    writer.put(bytes).put(kind);
    Blob blob = writer.blob();
    blob.resize(blob.size() + payload_bytes);
    EXPECT_EQ(bootstrap::local::send(system_, far_.get(), blob).count, blob.size());
  }
  void expect_end(ControlEvent::Kind kind, const std::string& detail) {
    const auto events = channel_->poll();
    ASSERT_EQ(events.size(), 1U);
    EXPECT_EQ(events[0].kind, kind);
    EXPECT_EQ(events[0].peer, them);
    EXPECT_EQ(events[0].detail, detail);
    EXPECT_FALSE(readable(*channel_)) << "the end of a peer must not wake for ever";
    EXPECT_TRUE(channel_->poll().empty()) << "the end of a peer is reported once";
    channel_->send(them, frame(100, 1));  // no SIGPIPE, no harm
    EXPECT_TRUE(channel_->poll().empty());
  }

  base::System system_;
  std::unique_ptr<UnixControlChannel> channel_;
  base::UniqueFd far_;
};

TEST_F(ControlChannel, carries_frames_of_every_size_both_ways_in_order) {
  const auto other = other_end();
  const std::array<std::size_t, 5> sizes{0, 1, 5, 4096, UnixControlChannel::frame_bytes_max};
  EXPECT_FALSE(readable(*channel_));
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    channel_->send(them, frame(sizes[i], static_cast<int>(i)));
    other->send(us, frame(sizes[i], static_cast<int>(10 + i)));
  }
  EXPECT_TRUE(readable(*channel_));
  EXPECT_TRUE(readable(*other));
  const auto check = [&](UnixControlChannel& channel, int peer, int first) {
    const auto events = channel.poll();
    ASSERT_EQ(events.size(), sizes.size());
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      EXPECT_EQ(events[i].kind, ControlEvent::Kind::frame);
      EXPECT_EQ(events[i].peer, peer);
      EXPECT_EQ(events[i].bytes, frame(sizes[i], first + static_cast<int>(i)));
    }
  };
  check(*other, us, 0);
  check(*channel_, them, 10);
  EXPECT_FALSE(readable(*channel_));
}

TEST_F(ControlChannel, queues_what_the_socket_does_not_take_and_wakes_when_it_has_room) {
  const auto other = other_end();
  constexpr int frames = 200;  // 3 MiB: many times what a socket holds
  for (int i = 0; i < frames; ++i) channel_->send(them, frame(UnixControlChannel::frame_bytes_max, i));
  EXPECT_FALSE(readable(*channel_)) << "a full socket is no reason to wake";
  int received = 0;
  for (int turn = 0; turn < 1000 && received < frames; ++turn) {
    for (const ControlEvent& event : other->poll()) {
      ASSERT_EQ(event.kind, ControlEvent::Kind::frame);
      ASSERT_EQ(event.bytes, frame(UnixControlChannel::frame_bytes_max, received++));
    }
    if (received < frames) {
      ASSERT_TRUE(readable(*channel_, 1000));
    }
    EXPECT_TRUE(channel_->poll().empty());
  }
  EXPECT_EQ(received, frames);
  EXPECT_FALSE(readable(*channel_));
}

TEST_F(ControlChannel, reports_a_goodbye_after_everything_sent_before_it_and_no_death) {
  auto other = other_end();
  for (int i = 0; i < 3; ++i) other->send(us, frame(100, i));
  other->say_goodbye(base::after_ms(system_, 1000));
  other->send(us, frame(100, 9));  // after a goodbye nothing is sent
  other.reset();
  const auto events = channel_->poll();
  ASSERT_EQ(events.size(), 4U);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(events[static_cast<std::size_t>(i)].bytes, frame(100, i));
  EXPECT_EQ(events[3].kind, ControlEvent::Kind::goodbye);
  EXPECT_EQ(events[3].peer, them);
  EXPECT_FALSE(readable(*channel_));
  EXPECT_TRUE(channel_->poll().empty());
}

TEST_F(ControlChannel, lets_both_sides_say_goodbye_one_after_the_other) {
  auto other = other_end();
  other->say_goodbye(base::after_ms(system_, 1000));
  ASSERT_EQ(channel_->poll().size(), 1U);
  channel_->say_goodbye(base::after_ms(system_, 1000));
  channel_.reset();
  const auto events = other->poll();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].kind, ControlEvent::Kind::goodbye);
}

TEST_F(ControlChannel, reports_a_hang_up_as_a_death_after_everything_sent_before_it) {
  auto other = other_end();
  for (int i = 0; i < 3; ++i) other->send(us, frame(100, i));
  other.reset();
  EXPECT_TRUE(readable(*channel_));
  const auto events = channel_->poll();
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(events[2].bytes, frame(100, 2));
  EXPECT_EQ(events[3].kind, ControlEvent::Kind::death);
  EXPECT_EQ(events[3].detail, "process 4242 on host elsewhere hung up without a goodbye");
  EXPECT_FALSE(readable(*channel_));
  EXPECT_TRUE(channel_->poll().empty());
}

TEST_F(ControlChannel, delivers_what_came_before_a_peer_hung_up_on_unread_frames) {
  auto other = other_end();
  channel_->send(them, frame(100, 1));  // never read: the kernel reports a reset instead of an end
  other->send(us, frame(100, 2));
  other.reset();
  const auto events = channel_->poll();
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].bytes, frame(100, 2));
  EXPECT_EQ(events[1].kind, ControlEvent::Kind::death);
}

TEST_F(ControlChannel, treats_half_a_frame_and_then_the_end_as_a_death) {
  far_writes(100, 0, 50);
  EXPECT_TRUE(channel_->poll().empty());
  far_.reset();
  expect_end(ControlEvent::Kind::death, "process 4242 on host elsewhere hung up without a goodbye");
}

TEST_F(ControlChannel, drops_a_peer_that_sends_an_oversize_frame) {
  far_writes(UnixControlChannel::frame_bytes_max + 1, 0);
  expect_end(ControlEvent::Kind::death,
             "process 4242 on host elsewhere sent a frame of kind 0 and 16385 bytes, which no "
             "correct peer does: connection dropped");
  std::byte rest{};
  EXPECT_TRUE(bootstrap::local::receive(system_, far_.get(), std::span{&rest, 1}).ended);
}

TEST_F(ControlChannel, drops_a_peer_that_sends_an_unknown_kind_or_a_goodbye_with_contents) {
  far_writes(0, 9);
  expect_end(ControlEvent::Kind::death,
             "process 4242 on host elsewhere sent a frame of kind 9 and 0 bytes, which no correct "
             "peer does: connection dropped");
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()), 0);
  channel_ = open(them, base::UniqueFd{ends[0]});
  far_.reset(ends[1]);
  far_writes(3, 1, 3);
  expect_end(ControlEvent::Kind::death,
             "process 4242 on host elsewhere sent a frame of kind 1 and 3 bytes, which no correct "
             "peer does: connection dropped");
}

TEST_F(ControlChannel, puts_frames_together_that_arrive_byte_by_byte) {
  base::ByteWriter writer;
  writer.put(std::uint32_t{3})
      .put(std::uint8_t{0})
      .put(std::uint8_t{1})
      .put(std::uint8_t{1})
      .put(std::uint8_t{1});
  const Blob& blob = writer.blob();
  for (std::size_t i = 0; i < blob.size(); ++i) {
    EXPECT_TRUE(channel_->poll().empty());
    ASSERT_EQ(bootstrap::local::send(system_, far_.get(), BlobView{blob}.subspan(i, 1)).count, 1U);
  }
  const auto events = channel_->poll();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].bytes, frame(3, 1));
}

TEST_F(ControlChannel, gives_up_its_goodbye_to_a_peer_that_does_not_read_at_the_deadline) {
  for (int i = 0; i < 200; ++i) channel_->send(them, frame(UnixControlChannel::frame_bytes_max, i));
  const auto begin = std::chrono::steady_clock::now();
  channel_->say_goodbye(base::after_ms(system_, 50));
  const auto taken = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(taken, std::chrono::milliseconds{50});
  EXPECT_LT(taken, std::chrono::seconds{5});
}

TEST_F(ControlChannel, drops_frames_to_ranks_it_has_no_link_to) {
  channel_->send(them + 1, frame(10, 1));
  std::byte any{};
  EXPECT_EQ(bootstrap::local::receive(system_, far_.get(), std::span{&any, 1}).error, EAGAIN);
}

TEST(control_channel, of_a_rank_alone_has_nothing_to_say) {
  base::System system;
  UnixControlChannel channel{system, {}};
  channel.send(1, Blob(3));
  EXPECT_TRUE(channel.poll().empty());
  channel.say_goodbye(no_deadline);
  pollfd wake{.fd = channel.wake_descriptor(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&wake, 1, 0), 0);
}

}  // namespace
