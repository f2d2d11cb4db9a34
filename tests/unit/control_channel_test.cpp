// SPDX-License-Identifier: MIT
// Two ends of a control channel in one process, and ends that a test plays by hand.
#include "bootstrap/control_channel.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <string_view>

#include "base/bytes.hpp"
#include "base/encryption.hpp"
#include "bootstrap/socket.hpp"

namespace {

using namespace qpmesh;
using base::ControlEvent;
using bootstrap::ControlLink;
using bootstrap::FrameKind;
using bootstrap::SocketControlChannel;

constexpr int us = 4;    // the rank whose channel is tested, as the peer knows it
constexpr int them = 7;  // its peer

enum class Wire { unix_socket, tcp, encrypted_tcp };

struct Ends {
  base::UniqueFd here;
  base::UniqueFd there;
};

Ends connect(Wire wire) {
  if (wire == Wire::unix_socket) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()), 0);
    return {base::UniqueFd{ends[0]}, base::UniqueFd{ends[1]}};
  }
  const base::System system;
  const auto listening = bootstrap::listen_at(system, *bootstrap::numeric({"127.0.0.1", 0}));
  auto calling = bootstrap::connect_to(system, bootstrap::local_address(listening.socket.get()));
  pollfd caller{.fd = listening.socket.get(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&caller, 1, 5000), 1);
  base::UniqueFd called{::accept4(caller.fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)};
  EXPECT_EQ(bootstrap::finish_connecting(system, calling.socket.get()), 0);
  EXPECT_EQ(bootstrap::set_up(system, called.get()), 0);
  return {std::move(calling.socket), std::move(called)};
}

class ControlChannel : public testing::TestWithParam<Wire> {
 protected:
  ControlChannel() { reconnect(); }

  void reconnect() {
    if (GetParam() == Wire::encrypted_tcp) {
      const std::array pairs{base::make_key_pair(system_), base::make_key_pair(system_)};
      keys_ = {base::agree_on_keys(pairs[0], pairs[1].public_key),
               base::agree_on_keys(pairs[1], pairs[0].public_key)};
      far_encryptor_.emplace(keys_[1]->send);
    }
    Ends ends = connect(GetParam());
    channel_ = open(them, std::move(ends.here));
    far_ = std::move(ends.there);
  }
  std::unique_ptr<SocketControlChannel> open(int peer, base::UniqueFd socket) {
    std::vector<ControlLink> links;
    links.push_back({.peer = peer,
                     .pid = 4242,
                     .host = "elsewhere",
                     .address = GetParam() != Wire::unix_socket ? "10.0.0.9:4000" : "",
                     .socket = std::move(socket),
                     .pidfd = {},
                     .keys = peer == them ? keys_[0] : keys_[1]});
    return std::make_unique<SocketControlChannel>(system_, std::move(links));
  }
  std::unique_ptr<SocketControlChannel> other_end() { return open(us, std::move(far_)); }

  static Blob frame(std::size_t bytes, int value) {
    return Blob(bytes, static_cast<std::byte>(value));
  }
  static bool readable(const SocketControlChannel& channel, int timeout_ms = 0) {
    pollfd wake{.fd = channel.wake_descriptor(), .events = POLLIN, .revents = 0};
    return ::poll(&wake, 1, timeout_ms) == 1;
  }
  // Sleeps until there are count events: TCP delivers a little later.
  static std::vector<ControlEvent> events(SocketControlChannel& channel, std::size_t count) {
    std::vector<ControlEvent> all = channel.poll();
    while (all.size() < count && readable(channel, 5000)) {
      for (ControlEvent& event : channel.poll()) all.push_back(std::move(event));
    }
    return all;
  }
  void far_writes(std::uint32_t bytes, FrameKind kind, std::size_t payload_bytes = 0) {
    base::ByteWriter writer;
    writer.put(kind).put(bytes);
    Blob blob = writer.blob();
    blob.resize(blob.size() + payload_bytes);
    far_writes(blob);
  }
  // As the other end of the wire would.
  Blob on_wire(const Blob& frame) {
    if (!far_encryptor_) return frame;
    Blob packet(base::packet_header_bytes);
    packet.insert(packet.end(), frame.begin(), frame.end());
    packet.resize(packet.size() + base::packet_tag_bytes);
    far_encryptor_->encrypt(packet.data(), frame.size());
    return packet;
  }
  void far_writes(const Blob& frame) { far_writes_raw(on_wire(frame)); }
  void far_writes_raw(const Blob& bytes) {
    EXPECT_EQ(bootstrap::send(system_, far_.get(), bytes).count, bytes.size());
  }
  void expect_death(const std::string& detail) {
    const auto ended = events(*channel_, 1);
    ASSERT_EQ(ended.size(), 1U);
    EXPECT_EQ(ended[0].kind, ControlEvent::Kind::death);
    EXPECT_EQ(ended[0].peer, them);
    EXPECT_EQ(ended[0].detail, detail);
    EXPECT_FALSE(ended[0].host_is_silent);
    EXPECT_FALSE(readable(*channel_)) << "the end of a peer must not wake for ever";
    EXPECT_TRUE(channel_->poll().empty()) << "the end of a peer is reported once";
    channel_->send(them, frame(100, 1));  // no SIGPIPE, no harm
    EXPECT_TRUE(channel_->poll().empty());
  }

  base::System system_;
  std::unique_ptr<SocketControlChannel> channel_;
  base::UniqueFd far_;
  std::array<std::optional<base::ConnectionKeys>, 2> keys_;  // of channel_, and of far_
  std::optional<base::Encryptor> far_encryptor_;
};

std::string wire_name(const testing::TestParamInfo<Wire>& tested) {
  switch (tested.param) {
    case Wire::unix_socket: return "a_unix_socket";
    case Wire::tcp: return "tcp";
    case Wire::encrypted_tcp: break;
  }
  return "encrypted_tcp";
}
INSTANTIATE_TEST_SUITE_P(over, ControlChannel,
                         testing::Values(Wire::unix_socket, Wire::tcp, Wire::encrypted_tcp),
                         wire_name);

using EncryptedControlChannel = ControlChannel;
INSTANTIATE_TEST_SUITE_P(over, EncryptedControlChannel, testing::Values(Wire::encrypted_tcp),
                         wire_name);

TEST_P(ControlChannel, says_that_its_own_socket_was_closed_and_calls_nobody_dead) {
  Ends ends = connect(GetParam());
  const int number = ends.here.get();
  channel_ = open(them, std::move(ends.here));
  ASSERT_EQ(::close(number), 0);
  channel_->send(them, frame(100, 1));
  const auto all = channel_->poll();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].kind, ControlEvent::Kind::descriptor_lost);
  EXPECT_TRUE(channel_->poll().empty()) << "it is said once";
}

TEST_P(ControlChannel, says_that_its_epoll_was_closed) {
  ASSERT_EQ(::close(channel_->wake_descriptor()), 0);
  const auto all = channel_->poll();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].kind, ControlEvent::Kind::descriptor_lost);
}

TEST_P(ControlChannel, carries_frames_of_every_size_both_ways_in_order) {
  const auto other = other_end();
  const std::array<std::size_t, 5> sizes{0, 1, 5, 4096, SocketControlChannel::frame_bytes_max};
  EXPECT_FALSE(readable(*channel_));
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    channel_->send(them, frame(sizes[i], static_cast<int>(i)));
    other->send(us, frame(sizes[i], static_cast<int>(10 + i)));
  }
  EXPECT_TRUE(readable(*channel_, 5000));
  EXPECT_TRUE(readable(*other, 5000));
  const auto check = [&](SocketControlChannel& channel, int peer, int first) {
    const auto frames = events(channel, sizes.size());
    ASSERT_EQ(frames.size(), sizes.size());
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      EXPECT_EQ(frames[i].kind, ControlEvent::Kind::frame);
      EXPECT_EQ(frames[i].peer, peer);
      EXPECT_EQ(frames[i].bytes, frame(sizes[i], first + static_cast<int>(i)));
    }
  };
  check(*other, us, 0);
  check(*channel_, them, 10);
  EXPECT_FALSE(readable(*channel_));
}

TEST_P(ControlChannel, queues_what_the_socket_does_not_take_and_wakes_when_it_has_room) {
  const auto other = other_end();
  constexpr int frames = 200;  // 3 MiB: many times what a socket holds
  for (int i = 0; i < frames; ++i)
    channel_->send(them, frame(SocketControlChannel::frame_bytes_max, i));
  EXPECT_FALSE(readable(*channel_)) << "a full socket is no reason to wake";
  int received = 0;
  while (received < frames) {
    std::array<pollfd, 2> wakes{};
    wakes[0] = {.fd = channel_->wake_descriptor(), .events = POLLIN, .revents = 0};
    wakes[1] = {.fd = other->wake_descriptor(), .events = POLLIN, .revents = 0};
    ASSERT_GT(::poll(wakes.data(), wakes.size(), 5000), 0) << "nobody was woken after " << received;
    EXPECT_TRUE(channel_->poll().empty());
    for (const ControlEvent& event : other->poll()) {
      ASSERT_EQ(event.kind, ControlEvent::Kind::frame);
      ASSERT_EQ(event.bytes, frame(SocketControlChannel::frame_bytes_max, received++));
    }
  }
  EXPECT_TRUE(channel_->poll().empty());
  EXPECT_FALSE(readable(*channel_));
}

TEST_P(ControlChannel, brings_two_peers_out_of_it_that_have_filled_each_other_up) {
  const auto other = other_end();
  constexpr int frames = 50;
  for (int i = 0; i < frames; ++i) {
    channel_->send(them, frame(SocketControlChannel::frame_bytes_max, i));
    other->send(us, frame(SocketControlChannel::frame_bytes_max, i));
  }
  std::array<int, 2> received{};
  while (received[0] < frames || received[1] < frames) {
    ASSERT_TRUE(readable(*channel_, 5000) || readable(*other, 5000));
    received[0] += static_cast<int>(channel_->poll().size());
    received[1] += static_cast<int>(other->poll().size());
  }
  EXPECT_EQ(received[0], frames);
  EXPECT_EQ(received[1], frames);
}

TEST_P(ControlChannel, reports_a_goodbye_after_everything_sent_before_it_and_no_death) {
  auto other = other_end();
  for (int i = 0; i < 3; ++i) other->send(us, frame(100, i));
  other->say_goodbye(base::after_ms(system_, 1000));
  other->send(us, frame(100, 9));  // after a goodbye nothing is sent
  other.reset();
  const auto all = events(*channel_, 4);
  ASSERT_EQ(all.size(), 4U);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(all[static_cast<std::size_t>(i)].bytes, frame(100, i));
  EXPECT_EQ(all[3].kind, ControlEvent::Kind::goodbye);
  EXPECT_EQ(all[3].peer, them);
  EXPECT_FALSE(readable(*channel_));
  EXPECT_TRUE(channel_->poll().empty());
}

TEST_P(ControlChannel, delivers_the_goodbye_of_a_peer_that_left_frames_unread) {
  auto other = other_end();
  for (int i = 0; i < 3; ++i) channel_->send(them, frame(1000, i));
  other->say_goodbye(base::after_ms(system_, 1000));
  channel_->send(them, frame(1000, 9));
  other.reset();  // resets a TCP connection
  const auto all = events(*channel_, 1);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].kind, ControlEvent::Kind::goodbye);
  EXPECT_TRUE(events(*channel_, 0).empty());
  EXPECT_FALSE(readable(*channel_));
}

TEST_P(ControlChannel, lets_both_sides_say_goodbye_one_after_the_other) {
  auto other = other_end();
  other->say_goodbye(base::after_ms(system_, 1000));
  ASSERT_EQ(events(*channel_, 1).size(), 1U);
  channel_->say_goodbye(base::after_ms(system_, 1000));
  channel_.reset();
  const auto all = events(*other, 1);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].kind, ControlEvent::Kind::goodbye);
}

TEST_P(ControlChannel, says_goodbye_long_before_the_deadline_to_a_peer_that_does_not_poll) {
  const auto other = other_end();
  const auto begin = std::chrono::steady_clock::now();
  channel_->say_goodbye(base::after_ms(system_, 5000));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds{1});
}

TEST_P(ControlChannel, says_goodbye_at_once_to_a_peer_whose_end_was_not_read_yet) {
  far_.reset();
  const auto begin = std::chrono::steady_clock::now();
  channel_->say_goodbye(base::after_ms(system_, 5000));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds{1});
}

TEST_P(ControlChannel, reports_a_hang_up_as_a_death_after_everything_sent_before_it) {
  auto other = other_end();
  for (int i = 0; i < 3; ++i) other->send(us, frame(100, i));
  other.reset();
  const auto all = events(*channel_, 4);
  ASSERT_EQ(all.size(), 4U);
  EXPECT_EQ(all[2].bytes, frame(100, 2));
  EXPECT_EQ(all[3].kind, ControlEvent::Kind::death);
  EXPECT_EQ(all[3].detail, "process 4242 on host elsewhere hung up without a goodbye");
  EXPECT_FALSE(readable(*channel_));
  EXPECT_TRUE(channel_->poll().empty());
}

TEST_P(ControlChannel, delivers_what_came_before_a_peer_hung_up_on_unread_frames) {
  auto other = other_end();
  channel_->send(them, frame(100, 1));  // never read: the kernel reports a reset instead of an end
  other->send(us, frame(100, 2));
  other.reset();
  const auto all = events(*channel_, 2);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].bytes, frame(100, 2));
  EXPECT_EQ(all[1].kind, ControlEvent::Kind::death);
  EXPECT_EQ(all[1].detail,
            GetParam() != Wire::unix_socket
                ? "the connection to process 4242 on host elsewhere (10.0.0.9:4000) was reset"
                : "process 4242 on host elsewhere hung up without a goodbye");
}

TEST_P(ControlChannel, tells_of_a_failed_connection_in_the_same_words_when_sending_found_it_first) {
  channel_->send(them, frame(100, 1));
  far_.reset();  // over an unread frame
  ASSERT_TRUE(readable(*channel_, 5000));
  channel_->send(them, frame(100, 1));  // takes the kernel's error away
  expect_death(GetParam() != Wire::unix_socket
                   ? "the connection to process 4242 on host elsewhere (10.0.0.9:4000) was reset"
                   : "process 4242 on host elsewhere hung up without a goodbye");
}

TEST_P(ControlChannel, treats_half_a_frame_and_then_the_end_as_a_death) {
  base::ByteWriter writer;
  writer.put(FrameKind::message).put(std::uint32_t{100});
  Blob whole = writer.blob();
  whole.resize(whole.size() + 100);
  Blob half = on_wire(whole);
  half.resize(half.size() - 50);
  far_writes_raw(half);
  ASSERT_TRUE(readable(*channel_, 5000));
  EXPECT_TRUE(channel_->poll().empty());
  far_.reset();
  expect_death("process 4242 on host elsewhere hung up without a goodbye");
}

TEST_P(ControlChannel, drops_a_peer_that_sends_an_oversize_frame) {
  far_writes(SocketControlChannel::frame_bytes_max + 1, FrameKind::message);
  expect_death(GetParam() == Wire::encrypted_tcp
                   ? "what came from process 4242 on host elsewhere (10.0.0.9:4000) was changed on "
                     "its way: it does not decrypt"
                   : "process 4242 on host elsewhere sent a frame of kind 4 and 16385 bytes, which "
                     "no correct peer does: connection dropped");
  std::byte rest{};
  pollfd end{.fd = far_.get(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&end, 1, 5000), 1);
  EXPECT_TRUE(bootstrap::receive(system_, far_.get(), std::span{&rest, 1}).ended);
}

TEST_P(ControlChannel, drops_a_peer_that_sends_what_no_correct_peer_does) {
  struct Wrong {
    std::uint32_t bytes;
    FrameKind kind;
  };
  // An unknown kind, a goodbye with contents, progress of a wrong length.
  for (const auto [bytes, kind] : {Wrong{0, FrameKind{99}}, Wrong{3, FrameKind::goodbye},
                                   Wrong{5, FrameKind::progress}, Wrong{0, FrameKind::progress}}) {
    reconnect();
    far_writes(bytes, kind, bytes);
    expect_death(fmt::format(
        "process 4242 on host elsewhere sent a frame of kind {} and {} bytes, which no correct "
        "peer does: connection dropped",
        static_cast<std::uint32_t>(kind), bytes));
  }
}

TEST_P(ControlChannel, is_not_misled_by_progress_that_was_never_made) {
  base::ByteWriter writer;
  writer.put(FrameKind::progress).put(std::uint32_t{4}).put(std::uint32_t{0xffff'ffffU});
  far_writes(writer.blob());
  far_writes(0, FrameKind::message);
  const auto all = events(*channel_, 1);
  ASSERT_EQ(all.size(), 1U);
  // Between ranks of one host nobody counts.
  EXPECT_EQ(all[0].kind, GetParam() != Wire::unix_socket ? ControlEvent::Kind::frame
                                                         : ControlEvent::Kind::death);
}

TEST_P(ControlChannel, puts_frames_together_that_arrive_byte_by_byte) {
  base::ByteWriter writer;
  writer.put(FrameKind::message)
      .put(std::uint32_t{3})
      .put(std::uint8_t{1})
      .put(std::uint8_t{1})
      .put(std::uint8_t{1});
  const Blob blob = on_wire(writer.blob());
  for (std::size_t i = 0; i < blob.size(); ++i) {
    EXPECT_TRUE(channel_->poll().empty());
    ASSERT_EQ(bootstrap::send(system_, far_.get(), BlobView{blob}.subspan(i, 1)).count, 1U);
  }
  const auto all = events(*channel_, 1);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].bytes, frame(3, 1));
}

TEST_P(ControlChannel, gives_up_its_goodbye_to_a_peer_that_does_not_read_at_the_deadline) {
  for (int i = 0; i < 200; ++i)
    channel_->send(them, frame(SocketControlChannel::frame_bytes_max, i));
  const auto begin = std::chrono::steady_clock::now();
  channel_->say_goodbye(base::after_ms(system_, 50));
  const auto taken = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(taken, std::chrono::milliseconds{50});
  EXPECT_LT(taken, std::chrono::seconds{5});
}

TEST_P(ControlChannel, drops_frames_to_ranks_it_has_no_link_to) {
  channel_->send(them + 1, frame(10, 1));
  std::byte any{};
  EXPECT_EQ(bootstrap::receive(system_, far_.get(), std::span{&any, 1}).error, EAGAIN);
}

// A stopped rank, as its peers see it. Without holding back, TCP_USER_TIMEOUT ends the connection.
TEST_P(ControlChannel, does_not_take_a_peer_for_dead_that_reads_nothing_for_long) {
  const auto other = other_end();
  constexpr int frames = 200;
  for (int i = 0; i < frames; ++i)
    channel_->send(them, frame(SocketControlChannel::frame_bytes_max, i));
  EXPECT_FALSE(readable(*channel_, 4500));
  EXPECT_TRUE(channel_->poll().empty());
  int received = 0;
  while (received < frames) {
    ASSERT_TRUE(readable(*other, 5000));
    for (const ControlEvent& event : other->poll()) {
      ASSERT_EQ(event.kind, ControlEvent::Kind::frame);
      ++received;
    }
    EXPECT_TRUE(channel_->poll().empty());
  }
}

TEST_P(EncryptedControlChannel, puts_no_plain_text_on_the_wire) {
  const std::string_view secret = "what ranks tell each other is their own affair";
  const auto bytes = std::as_bytes(std::span{secret});
  channel_->send(them, Blob(bytes.begin(), bytes.end()));
  Blob seen(1000);
  seen.resize(bootstrap::receive(system_, far_.get(), seen).count);
  EXPECT_EQ(seen.size(), secret.size() + 8 + base::packet_header_bytes + base::packet_tag_bytes);
  // Not the range's search: clang 14, which lints, cannot read what it returns.
  EXPECT_EQ(std::search(seen.begin(), seen.end(), bytes.begin(), bytes.begin() + 4), seen.end());
  base::Decryptor decryptor{keys_[1]->receive};
  const auto opened = decryptor.decrypt(seen);
  ASSERT_TRUE(opened);
  EXPECT_TRUE(std::ranges::equal(opened->subspan(8), bytes));
}

TEST_P(EncryptedControlChannel, takes_a_changed_byte_for_the_end_of_its_peer_and_says_so) {
  base::ByteWriter writer;
  writer.put(FrameKind::message).put(std::uint32_t{1}).put(std::uint8_t{1});
  for (const std::size_t changed : {3U, 4U, 20U}) {  // a length, the kind, the tag
    reconnect();
    Blob packet = on_wire(writer.blob());
    packet[changed] ^= std::byte{1};
    far_writes_raw(packet);
    expect_death(
        "what came from process 4242 on host elsewhere (10.0.0.9:4000) was changed on its way: it "
        "does not decrypt");
  }
}

TEST_P(EncryptedControlChannel, does_not_take_a_packet_without_a_whole_frame) {
  for (const std::size_t bytes : {7U, 12U}) {  // less than a header; more than it says
    reconnect();
    far_writes(Blob(bytes));
    expect_death(
        "what came from process 4242 on host elsewhere (10.0.0.9:4000) was changed on its way: it "
        "does not decrypt");
  }
}

TEST(control_channel, of_a_rank_alone_has_nothing_to_say) {
  base::System system;
  SocketControlChannel channel{system, {}};
  channel.send(1, Blob(3));
  EXPECT_TRUE(channel.poll().empty());
  channel.say_goodbye(no_deadline);
  pollfd wake{.fd = channel.wake_descriptor(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&wake, 1, 0), 0);
}

}  // namespace
