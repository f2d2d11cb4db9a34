// SPDX-License-Identifier: MIT
// What one end of a socket does with what a peer sends that keeps no rules, and how it ends.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "base/encryption.hpp"
#include "base/system.hpp"
#include "qpmesh/error.hpp"
#include "tests/support/loopback_sockets.hpp"
#include "transport/tcp/frame.hpp"
#include "transport/tcp/outbox.hpp"
#include "transport/tcp/silence.hpp"
#include "transport/tcp/transport.hpp"

namespace qpmesh::transport::tcp {
namespace {

constexpr std::size_t window_bytes = 4096;

// Our end of a pair, and the bare socket of a peer.
class OneEnd : public testing::Test {
 public:
  OneEnd() {
    auto sockets = test::loopback_sockets();
    peer = std::move(sockets[1]);
    connection = transport.connect({.peer = 3,
                                    .peer_name = "rank 3 at the other end",
                                    .socket = std::move(sockets[0]),
                                    .window = window});
  }

  void send(std::span<const std::byte> bytes) {
    ASSERT_EQ(::send(peer.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  void send(const FrameHeader& header) { send(std::as_bytes(std::span{&header, 1})); }
  void send(FrameKind kind, RemoteAddress address, std::size_t bytes, std::byte value) {
    send(FrameHeader::of(kind, bytes, address));
    send(std::vector<std::byte>(bytes, value));
  }
  // A write to the window comes behind everything before it.
  void let_all_come() {
    const std::byte mark{++marks_};
    send(FrameKind::write, {Regions::window, window_bytes - 1}, 1, mark);
    for (int i = 0; i < 1'000'000 && window.back() != mark && connection->fault() == nullptr; ++i)
      transport.progress();
  }
  void wait_for_fault() {
    for (int i = 0; i < 5'000 && connection->fault() == nullptr; ++i) {
      pollfd wake{.fd = transport.wake_descriptor(), .events = POLLIN, .revents = 0};
      ::poll(&wake, 1, 1);
      transport.progress();
    }
  }
  void expect_fault(std::string_view cause) {
    wait_for_fault();
    ASSERT_NE(connection->fault(), nullptr);
    EXPECT_EQ(connection->fault()->cause, cause);
    EXPECT_EQ(connection->fault()->code, ErrorCode::link_failed);
    EXPECT_EQ(connection->fault()->peer, 3);
    const Write nothing{.target = {Regions::window, 0}};
    EXPECT_EQ(connection->post({&nothing, 1}), Post::failed);
  }

  base::FailPoints points;
  base::System system{&points};
  std::vector<std::byte> window = std::vector<std::byte>(window_bytes);
  TcpTransport transport{system, {.inline_bytes_max = 4096}};
  base::UniqueFd peer;
  std::unique_ptr<Connection> connection;

 private:
  unsigned char marks_ = 0;
};

bool all_are(std::span<const std::byte> bytes, std::byte wanted) {
  return std::ranges::all_of(bytes, [&](std::byte each) { return each == wanted; });
}

TEST_F(OneEnd, places_what_the_peer_writes_to_its_window_up_to_the_last_byte) {
  send(FrameKind::write, {Regions::window, window_bytes - 10}, 10, std::byte{7});
  let_all_come();
  EXPECT_TRUE(all_are(std::span{window}.subspan(window_bytes - 10, 9), std::byte{7}));
  EXPECT_TRUE(all_are(std::span{window}.first(window_bytes - 10), std::byte{0}));
}

TEST_F(OneEnd, lets_nobody_write_behind_the_window) {
  send(FrameKind::write, {Regions::window, window_bytes - 9}, 10, std::byte{7});
  expect_fault(
      "rank 3 at the other end wrote 10 bytes to 4087 of region 0, which was never open to "
      "it");
  EXPECT_TRUE(all_are(window, std::byte{0}));
}

TEST(part_of, is_nothing_where_any_byte_lies_outside) {
  std::vector<std::byte> memory(100);
  EXPECT_EQ(part_of(memory, 90, 10), memory.data() + 90);
  EXPECT_EQ(part_of(memory, 100, 0), memory.data() + 100);
  for (const auto& [offset, bytes] : {std::pair<std::uint64_t, std::size_t>{91, 10},
                                      {101, 0},
                                      {~std::uint64_t{0}, 1},
                                      {~std::uint64_t{0} - 4, 10},
                                      {1, ~std::size_t{0}}})
    EXPECT_EQ(part_of(memory, offset, bytes), nullptr) << offset << " " << bytes;
}

TEST_F(OneEnd, lets_nobody_write_where_nothing_was_opened) {
  send(FrameKind::write, {77, 0}, 10, std::byte{7});
  expect_fault(
      "rank 3 at the other end wrote 10 bytes to 0 of region 77, which was never open to it");
}

TEST_F(OneEnd, lets_nobody_write_a_source) {
  std::vector<std::byte> source(100);
  const RemoteAddress address = transport.register_memory(source, RegionKind::source);
  send(FrameKind::write, address, 10, std::byte{7});
  wait_for_fault();
  EXPECT_NE(connection->fault(), nullptr);
  EXPECT_TRUE(all_are(source, std::byte{0}));
}

TEST_F(OneEnd, drops_what_comes_for_memory_that_was_taken_back_and_goes_on) {
  std::vector<std::byte> target(100'000);
  const RemoteAddress address = transport.register_memory(target, RegionKind::target);
  transport.deregister_memory(address.region);
  for (const std::size_t bytes : {10U, 3'000U, 100'000U})
    send(FrameKind::write, address, bytes, std::byte{7});
  let_all_come();
  EXPECT_EQ(connection->fault(), nullptr);
  EXPECT_EQ(window.back(), std::byte{1});
  EXPECT_TRUE(all_are(target, std::byte{0}));
}

TEST_F(OneEnd, places_nothing_more_of_a_frame_whose_target_is_taken_back_in_the_middle) {
  std::vector<std::byte> target(100'000);
  const RemoteAddress address = transport.register_memory(target, RegionKind::target);
  send(FrameHeader::of(FrameKind::write, target.size(), address));
  send(std::vector<std::byte>(50'000, std::byte{7}));
  for (int i = 0; i < 1'000'000 && target[49'999] == std::byte{0}; ++i) transport.progress();
  transport.deregister_memory(address.region);
  std::ranges::fill(target, std::byte{0});
  send(std::vector<std::byte>(50'000, std::byte{7}));
  let_all_come();
  EXPECT_EQ(connection->fault(), nullptr);
  EXPECT_EQ(window.back(), std::byte{1});
  EXPECT_TRUE(all_are(target, std::byte{0}));
}

TEST_F(OneEnd, shows_nothing_of_a_short_frame_before_all_of_it_is_here) {
  for (std::size_t bytes : {1U, 64U, 2048U}) {
    std::ranges::fill(window, std::byte{0});
    const auto header = FrameHeader::of(FrameKind::write, bytes, {Regions::window, 0});
    std::vector<std::byte> frame(sizeof header, std::byte{0});
    std::memcpy(frame.data(), &header, sizeof header);
    frame.resize(sizeof header + bytes, std::byte{9});
    const std::size_t step = bytes > 100 ? 97 : 1;
    for (std::size_t at = 0; at + 1 < frame.size(); at += step) {
      send(std::span{frame}.subspan(at, std::min(step, frame.size() - 1 - at)));
      for (int i = 0; i < 20; ++i) transport.progress();
      ASSERT_TRUE(all_are(std::span{window}.first(bytes), std::byte{0})) << at;
    }
    send(std::span{frame}.last(1));
    let_all_come();
    EXPECT_TRUE(all_are(std::span{window}.first(bytes), std::byte{9}));
  }
}

TEST_F(OneEnd, places_frames_of_all_lengths_in_a_row_wherever_a_call_ends) {
  constexpr std::array<std::size_t, 12> lengths{64,     2'048,  2'049, 4'096,  16'384, 16'897,
                                                18'928, 18'944, 64,    40'000, 3'000,  16'384};
  constexpr std::size_t rounds = 8;
  std::vector<std::byte> memory(rounds * std::reduce(lengths.begin(), lengths.end()));
  const RemoteAddress address = transport.register_memory(memory, RegionKind::lasting);
  std::vector<std::byte> wanted;
  for (std::size_t i = 0; i < rounds * lengths.size(); ++i) {
    const std::size_t bytes = lengths[i % lengths.size()];
    const std::byte value{static_cast<unsigned char>(1 + i)};
    send(FrameKind::write, address + wanted.size(), bytes, value);
    wanted.insert(wanted.end(), bytes, value);
    if (i % 5 == i / lengths.size() % 5) transport.progress();
  }
  let_all_come();
  EXPECT_EQ(memory, wanted);
}

TEST_F(OneEnd, takes_several_frames_of_4_KiB_in_a_call) {
  constexpr std::size_t count = 12;
  constexpr std::size_t bytes = 4'096;
  std::vector<std::byte> memory(count * bytes);
  const RemoteAddress address = transport.register_memory(memory, RegionKind::lasting);
  for (std::size_t i = 0; i < count; ++i)
    send(FrameKind::write, address + i * bytes, bytes, std::byte{7});
  const std::uint64_t before = points.calls();
  while (memory.back() != std::byte{7} && connection->fault() == nullptr) transport.progress();
  EXPECT_LE(points.calls() - before, count / 2);
  EXPECT_TRUE(all_are(memory, std::byte{7}));
}

TEST_F(OneEnd, ends_at_bytes_that_are_no_frame) {
  const std::vector<std::byte> garbage(64, std::byte{0xee});
  send(garbage);
  wait_for_fault();
  EXPECT_NE(connection->fault(), nullptr);
  EXPECT_TRUE(all_are(window, std::byte{0}));
}

TEST_F(OneEnd, ends_at_an_answer_that_nobody_asked_for) {
  send(FrameKind::answer, {}, 10, std::byte{7});
  wait_for_fault();
  EXPECT_NE(connection->fault(), nullptr);
}

TEST_F(OneEnd, takes_no_empty_answer_that_it_did_not_ask_for) {
  send(FrameHeader::of(FrameKind::answer, 0));
  expect_fault("the connection to rank 3 at the other end carried an answer that nobody waits for");
}

TEST_F(OneEnd, takes_no_empty_answer_for_one_with_bytes) {
  std::vector<std::byte> target(100);
  ASSERT_EQ(connection->read(target, std::nullopt, {5, 0}), Post::posted);
  send(FrameHeader::of(FrameKind::answer, 0));
  expect_fault("the connection to rank 3 at the other end carried an answer that nobody waits for");
  EXPECT_EQ(connection->completed(), 0U);
}

TEST_F(OneEnd, takes_no_frame_that_is_longer_than_a_write) {
  std::vector<std::byte> target(write_bytes_max + 1);
  const RemoteAddress address = transport.register_memory(target, RegionKind::target);
  send(FrameHeader::of(FrameKind::write, target.size(), address));
  expect_fault(
      "the connection to rank 3 at the other end carried a frame that is longer than any rank "
      "sends");
}

// Silence is what the kernel of the peer owes. How long ago something came says nothing of a pair
// that had nothing to say.
TEST(silence, begins_where_something_is_asked_for_in_vain) {
  using namespace std::chrono_literals;
  constexpr Deadline begin{1h};
  Silence silence;
  EXPECT_EQ(silence.lasts(begin, false, 100s), 0ms);
  EXPECT_EQ(silence.lasts(begin + 500ms, true, 101s), 0ms);
  EXPECT_EQ(silence.lasts(begin + 1s, true, 101s), 500ms);
  EXPECT_EQ(silence.lasts(begin + 9s, true, 109s), 8'500ms);
  EXPECT_EQ(silence.lasts(begin + 10s, true, 300ms), 300ms) << "one came in between";
  EXPECT_EQ(silence.lasts(begin + 11s, false, 1s), 0ms);
  EXPECT_EQ(silence.lasts(begin + 60s, true, 50s), 0ms);
}

TEST_F(OneEnd, ends_at_more_reads_than_a_rank_may_post) {
  std::vector<std::byte> source(write_bytes_max);
  const RemoteAddress address = transport.register_memory(source, RegionKind::source);
  for (std::size_t i = 0; i < 400; ++i)
    send(FrameHeader::of(FrameKind::read, source.size(), address));
  expect_fault("the connection to rank 3 at the other end carried more reads than a rank may post");
}

TEST_F(OneEnd, places_what_had_come_before_the_peer_closed) {
  send(FrameKind::write, {Regions::window, 0}, 2'000, std::byte{5});
  peer.reset();
  expect_fault("the connection to rank 3 at the other end was closed by the peer");
  EXPECT_TRUE(all_are(std::span{window}.first(2'000), std::byte{5}));
}

TEST_F(OneEnd, places_what_had_come_before_a_write_finds_the_connection_broken) {
  const std::vector<std::byte> bytes(100);
  const Write write{.head = bytes, .target = {Regions::window, 0}};
  ASSERT_EQ(connection->post({&write, 1}), Post::posted);  // unread where the peer closes: a reset
  send(FrameKind::write, {Regions::window, 0}, 2'000, std::byte{5});
  peer.reset();
  Post answer = Post::posted;
  for (int i = 0; i < 5'000 && answer != Post::failed; ++i) {
    ::poll(nullptr, 0, 1);
    answer = connection->post({&write, 1});
  }
  EXPECT_EQ(answer, Post::failed);
  EXPECT_TRUE(all_are(std::span{window}.first(2'000), std::byte{5}));
}

TEST_F(OneEnd, wakes_a_sleeper_when_a_full_socket_has_room_again) {
  const std::vector<std::byte> source(write_bytes_max, std::byte{1});
  const Write write{.body = source, .target = {1, 0}, .tell = true};
  std::uint64_t posted = 0;
  while (posted < 64 && connection->completed() == posted) {
    ASSERT_EQ(connection->post({&write, 1}), Post::posted);
    ++posted;
  }
  ASSERT_LT(connection->completed(), posted) << "the socket takes everything";
  transport.request_notification();
  pollfd wake{.fd = transport.wake_descriptor(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&wake, 1, 0), 0);
  EXPECT_FALSE(connection->delivered());
  std::vector<std::byte> sink(1 << 20);
  int wakes = 0;
  for (int i = 0; i < 10'000 && connection->completed() < posted; ++i) {
    while (::recv(peer.get(), sink.data(), sink.size(), MSG_DONTWAIT) > 0) {}
    if (::poll(&wake, 1, 100) == 0) continue;
    ++wakes;
    transport.end_notification();
    transport.progress();
    transport.request_notification();
  }
  EXPECT_GT(wakes, 0);
  EXPECT_EQ(connection->completed(), posted);
}

TEST(outbox, gives_back_everything_in_order_whatever_the_socket_takes) {
  Outbox outbox{100};
  std::vector<std::byte> expected;
  std::vector<std::byte> got;
  std::vector<std::vector<std::byte>> kept;
  std::uint64_t number = 0;
  std::uint64_t draws = 1;
  const auto draw = [&](std::size_t below) {
    draws = draws * 6364136223846793005U + 1442695040888963407U;
    return static_cast<std::size_t>(draws >> 33) % below;
  };
  const auto take = [&](std::size_t bytes_max) {
    std::array<iovec, 5> parts;
    const std::size_t used = outbox.gather(parts);
    std::size_t taken = 0;
    for (const iovec& part : std::span{parts}.first(used)) {
      const std::size_t bytes = std::min(part.iov_len, bytes_max - taken);
      const auto* const data = static_cast<const std::byte*>(part.iov_base);
      got.insert(got.end(), data, data + bytes);
      taken += bytes;
    }
    outbox.left(taken);
  };
  for (int i = 0; i < 10'000; ++i) {
    std::vector<std::byte>& bytes = kept.emplace_back(1 + draw(60));
    for (std::byte& each : bytes) each = static_cast<std::byte>(draw(256));
    const bool copies = draw(2) == 0;
    while (!outbox.has_room(copies ? 1 : 0, copies ? bytes.size() : 0, 1)) take(1 + draw(80));
    expected.insert(expected.end(), bytes.begin(), bytes.end());
    if (copies) {
      outbox.copy(bytes);
      std::ranges::fill(bytes, std::byte{0xff});
    } else {
      outbox.refer(bytes);
    }
    outbox.tell(++number);
    EXPECT_LT(outbox.told(), number);
    if (draw(3) == 0) take(1 + draw(200));
  }
  while (!outbox.empty()) take(1000);
  EXPECT_EQ(outbox.told(), number);
  EXPECT_EQ(got, expected);
}

// Both ends of an encrypted connection, with the network between them in our hands.
class Encrypted : public testing::Test {
 public:
  Encrypted() {
    const std::array pairs{base::make_key_pair(system), base::make_key_pair(system)};
    for (const std::size_t side : {0U, 1U}) {
      auto sockets = test::loopback_sockets();
      wires[side] = std::move(sockets[1]);
      connections[side] = transports[side].connect(
          {.peer = static_cast<int>(1 - side),
           .peer_name = "the other end",
           .socket = std::move(sockets[0]),
           .window = windows[side],
           .keys = base::agree_on_keys(pairs[side], pairs[1 - side].public_key)});
    }
  }

  static void post(Connection& connection, std::span<const std::byte> bytes) {
    const Write write{.body = bytes, .target = {Regions::window, 0}};
    ASSERT_EQ(connection.post({&write, 1}), Post::posted);
  }
  // What the first end has put on the wire.
  std::vector<std::byte> overheard() const {
    std::vector<std::byte> bytes(100'000);
    pollfd wire{.fd = wires[0].get(), .events = POLLIN, .revents = 0};
    ::poll(&wire, 1, 5'000);
    bytes.resize(static_cast<std::size_t>(::recv(wire.fd, bytes.data(), bytes.size(), 0)));
    return bytes;
  }
  // The second one gets it.
  void hand_on(std::span<const std::byte> bytes) {
    ASSERT_EQ(::send(wires[1].get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  void let_it_come() {
    for (int i = 0; i < 100; ++i) transports[1].progress();
  }
  void expect_fault() {
    for (int i = 0; i < 1'000'000 && connections[1]->fault() == nullptr; ++i)
      transports[1].progress();
    ASSERT_NE(connections[1]->fault(), nullptr);
    EXPECT_EQ(connections[1]->fault()->code, ErrorCode::link_failed);
    EXPECT_EQ(connections[1]->fault()->peer, 0);
    EXPECT_EQ(connections[1]->fault()->cause,
              "the connection to the other end carried bytes that were changed on their way: they "
              "do not decrypt");
    EXPECT_TRUE(all_are(windows[1], std::byte{0}));
  }

  base::System system;
  std::array<std::vector<std::byte>, 2> windows{std::vector<std::byte>(window_bytes),
                                                std::vector<std::byte>(window_bytes)};
  std::array<TcpTransport, 2> transports{TcpTransport{system, {.inline_bytes_max = 4096}},
                                         TcpTransport{system, {.inline_bytes_max = 4096}}};
  std::array<base::UniqueFd, 2> wires;
  std::array<std::unique_ptr<Connection>, 2> connections;
};

std::vector<std::byte> text_of(std::size_t bytes) {
  std::vector<std::byte> text(bytes);
  for (std::size_t i = 0; i < bytes; ++i) text[i] = static_cast<std::byte>('a' + i % 26);
  return text;
}

TEST_F(Encrypted, puts_no_plain_text_on_the_wire_and_all_of_it_into_the_target) {
  const auto text = text_of(3000);
  post(*connections[0], text);
  const auto wire = overheard();
  EXPECT_EQ(wire.size(),
            text.size() + sizeof(FrameHeader) + base::packet_header_bytes + base::packet_tag_bytes);
  // Not the range's search: clang 14, which lints, cannot read what it returns.
  EXPECT_EQ(std::search(wire.begin(), wire.end(), text.begin(), text.begin() + 4), wire.end());
  hand_on(wire);
  for (int i = 0; i < 1'000'000 && windows[1].front() == std::byte{0}; ++i)
    transports[1].progress();
  EXPECT_TRUE(std::ranges::equal(std::span{windows[1]}.first(text.size()), text));
}

TEST_F(Encrypted, places_nothing_of_a_packet_that_is_not_whole) {
  post(*connections[0], text_of(3000));
  const auto wire = overheard();
  hand_on(std::span{wire}.first(wire.size() - 1));
  let_it_come();
  EXPECT_EQ(connections[1]->fault(), nullptr);
  EXPECT_TRUE(all_are(windows[1], std::byte{0}));
}

class ChangedByte : public Encrypted, public testing::WithParamInterface<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(at, ChangedByte, testing::Values(0, 3, 4, 20, 99, 135));

TEST_P(ChangedByte, ends_the_connection_and_says_so) {
  post(*connections[0], text_of(100));
  auto wire = overheard();
  ASSERT_EQ(wire.size(), 136U);
  wire[GetParam()] ^= std::byte{0x10};
  // A longer one would be waited for.
  if (GetParam() == 0) wire.resize(1000);
  hand_on(wire);
  expect_fault();
}

TEST_F(Encrypted, takes_no_frame_that_is_not_encrypted) {
  const FrameHeader header = FrameHeader::of(FrameKind::write, 100, {Regions::window, 0});
  std::vector<std::byte> frame(sizeof header + 100, std::byte{7});
  std::memcpy(frame.data(), &header, sizeof header);
  hand_on(frame);
  expect_fault();
}

// A context whose other peers share memory with it, say.
class BesideOthers : public testing::Test {
 public:
  BesideOthers() {
    auto sockets = test::loopback_sockets();
    peer = std::move(sockets[1]);
    connection = transport.connect({.peer = 3,
                                    .peer_name = "rank 3 at the other end",
                                    .socket = std::move(sockets[0]),
                                    .window = window});
    for (int i = 0; i < 100; ++i) transport.progress();
  }
  void write_one_byte() {
    const FrameHeader header = FrameHeader::of(FrameKind::write, 1, {Regions::window, 0});
    std::vector<std::byte> frame(sizeof header + 1, std::byte{7});
    std::memcpy(frame.data(), &header, sizeof header);
    ASSERT_EQ(::send(peer.get(), frame.data(), frame.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(frame.size()));
  }
  // Until n looks of the context have been made, or something has come.
  int looks_until_news(int looks_max) {
    int looks = 0;
    while (looks < looks_max && window.front() != std::byte{7}) {
      transport.progress();
      ++looks;
    }
    return looks;
  }

  base::FailPoints points;
  base::System system{&points};
  std::vector<std::byte> window = std::vector<std::byte>(window_bytes);
  TcpTransport transport{system, {.inline_bytes_max = 4096, .beside_others = true}};
  base::UniqueFd peer;
  std::unique_ptr<Connection> connection;
};

TEST_F(BesideOthers, silent_sockets_cost_a_call_in_sixteen_looks) {
  const std::uint64_t before = points.calls();
  for (int i = 0; i < 1600; ++i) transport.progress();
  EXPECT_EQ(points.calls() - before, 100U);
}

TEST_F(BesideOthers, what_comes_after_silence_is_found_within_sixteen_looks) {
  write_one_byte();
  EXPECT_LE(looks_until_news(1000), 16);
}

TEST_F(BesideOthers, what_came_before_the_peers_last_words_is_there_whatever_look_is_due) {
  for (int due = 0; due < 16; ++due) {
    transport.progress();
    window.front() = std::byte{0};
    write_one_byte();
    connection->receive_all();
    EXPECT_EQ(window.front(), std::byte{7}) << due;
    for (int i = 0; i < 100 + due; ++i) transport.progress();
  }
}

TEST_F(BesideOthers, who_has_written_or_falls_asleep_looks_at_once) {
  const std::byte nothing{};
  const Write write{.body = {&nothing, 1}, .target = {Regions::window, 0}};
  for (const bool writes : {true, false}) {
    for (int i = 0; i < 100; ++i) transport.progress();
    if (writes) connection->post({&write, 1});
    else transport.request_notification();
    window.front() = std::byte{0};
    write_one_byte();
    EXPECT_EQ(looks_until_news(1000), 1) << writes;
  }
}

TEST(tcp_transport, that_cannot_be_made_says_which_call_failed_and_leaks_nothing) {
  for (std::uint64_t call = 0;; ++call) {
    base::FailPoints points;
    points.fail_call(call, EMFILE);
    const base::System system{&points};
    std::vector<std::byte> window(window_bytes);
    try {
      TcpTransport transport{system, {.inline_bytes_max = 4096}};
      auto sockets = test::loopback_sockets();
      const auto connection = transport.connect(
          {.peer = 3, .peer_name = "nobody", .socket = std::move(sockets[0]), .window = window});
      ASSERT_FALSE(points.fired());
      EXPECT_EQ(call, 6U);
      return;
    } catch (const Error& error) {
      ASSERT_TRUE(points.fired());
      EXPECT_EQ(error.code(), ErrorCode::no_resource);
      EXPECT_EQ(error.system_error(), EMFILE);
      EXPECT_TRUE(error.cause().starts_with(points.fired_site())) << error.cause();
    }
  }
}

}  // namespace
}  // namespace qpmesh::transport::tcp
