// SPDX-License-Identifier: MIT
// Two rails over connections that do what the test says.
#include "transport/rails.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace qpmesh {
namespace {

using transport::Capabilities;
using transport::Connection;
using transport::Post;
using transport::RailedConnection;
using transport::RailedTransport;
using transport::RegionKind;
using transport::RemoteAddress;
using transport::Transport;
using transport::Write;

// Names memory by a key of its own and its address.
class Device final : public Transport {
 public:
  explicit Device(std::uint32_t first_key) : next_key_{first_key} {}
  RemoteAddress register_memory(std::span<const std::byte> memory, RegionKind kind) override {
    if (full) throw Error{{.code = ErrorCode::no_resource, .cause = "full"}};
    if (kind == RegionKind::lasting) lasting_[next_key_] = memory;
    ++registered;
    return {next_key_++, reinterpret_cast<std::uintptr_t>(memory.data())};
  }
  bool deregister_memory(std::uint32_t key) noexcept override {
    lasting_.erase(key);
    --registered;
    return true;
  }
  std::optional<RemoteAddress> address_of(
      std::span<const std::byte> memory) const noexcept override {
    for (const auto& [key, region] : lasting_) {
      if (memory.data() >= region.data() &&
          memory.data() + memory.size() <= region.data() + region.size())
        return RemoteAddress{key, reinterpret_cast<std::uintptr_t>(memory.data())};
    }
    return std::nullopt;
  }
  void progress() noexcept override {}
  int wake_descriptor() const noexcept override { return -1; }

  bool full = false;
  int registered = 0;

 private:
  std::uint32_t next_key_;
  std::map<std::uint32_t, std::span<const std::byte>> lasting_;
};

// Keeps what is posted; places and completes nothing by itself.
class Wire final : public Connection {
 public:
  const Capabilities& capabilities() const noexcept override { return capabilities_; }
  Post post(std::span<const Write> chain) noexcept override {
    if (fault_) return Post::failed;
    if (busy) return Post::busy;
    for (const Write& write : chain) {
      posted.push_back(write);
      std::vector<std::byte>& bytes = placed.emplace_back(write.head.begin(), write.head.end());
      bytes.insert(bytes.end(), write.body.begin(), write.body.end());
    }
    return Post::posted;
  }
  Post read(std::span<std::byte>, std::optional<std::uint32_t>,
            RemoteAddress source) noexcept override {
    if (fault_) return Post::failed;
    if (busy) return Post::busy;
    reads.push_back(source);
    return Post::posted;
  }
  std::uint64_t completed() const noexcept override { return done; }
  std::optional<std::uint32_t> poll_immediate() noexcept override {
    if (arrived.empty()) return std::nullopt;
    const std::uint32_t immediate = arrived.front();
    arrived.erase(arrived.begin());
    return immediate;
  }
  const std::byte* load(RemoteAddress, std::size_t) noexcept override { return nullptr; }
  void tear_down() noexcept override { torn_down = true; }
  const ErrorDetail* fault() const noexcept override { return fault_.get(); }
  const ErrorDetail* doubt() const noexcept override { return doubt_.get(); }

  void fail(std::string why = "the cable is cut") {
    fault_ = std::make_unique<ErrorDetail>(ErrorDetail{.cause = std::move(why)});
  }
  void set_doubt(bool doubtful) {
    doubt_.reset(doubtful ? new ErrorDetail{.cause = "the port is down"} : nullptr);
  }

  // All that tells or reads, as completed() counts.
  std::uint64_t under_way() const {
    return static_cast<std::uint64_t>(std::ranges::count(posted, true, &Write::tell)) +
           reads.size();
  }

  std::vector<Write> posted;
  std::vector<std::vector<std::byte>> placed;  // of each
  std::vector<RemoteAddress> reads;
  std::vector<std::uint32_t> arrived;
  std::uint64_t done = 0;
  bool busy = false;
  bool torn_down = false;

 private:
  std::unique_ptr<ErrorDetail> fault_;
  std::unique_ptr<ErrorDetail> doubt_;
  Capabilities capabilities_{.name = "fake",
                             .registered_sources = true,
                             .inline_bytes_max = 64,
                             .write_bytes_max = std::size_t{1} << 20};
};

class Rails : public testing::Test {
 public:
  void TestBody() override {}  // a test may need another pair
  static constexpr std::uint32_t first_key = 100;
  static constexpr std::uint32_t second_key = 200;

  Rails() {
    auto first_device = std::make_unique<Device>(first_key);
    auto second_device = std::make_unique<Device>(second_key);
    devices = {first_device.get(), second_device.get()};
    transport = std::make_unique<RailedTransport>(
        system, base::Log{base::LogLevel::off}, std::move(first_device), std::move(second_device));
    transport->register_memory(memory, RegionKind::lasting);
    transport->register_memory(mirror, RegionKind::lasting);
    auto first_wire = std::make_unique<Wire>();
    auto second_wire = std::make_unique<Wire>();
    first = first_wire.get();
    second = second_wire.get();
    // Of the time before: a probe.
    first->done = 2;
    second->done = 2;
    connection = std::make_unique<RailedConnection>(
        RailedConnection::Parts{.transport = transport.get(),
                                .peer = 1,
                                .first = std::move(first_wire),
                                .second = std::move(second_wire),
                                .names = {"rxe0 port 1", "rxe1 port 1"},
                                .notice = notice.data(),
                                .peer_notice = {7, 70, 8},
                                .mirror = mirror,
                                .places = places,
                                .messages_max = messages_max});
  }

  // Of 100 bytes from the i-th hundred of memory: too long to be copied.
  Write unordered(std::size_t i) {
    return {.body = std::span{memory}.subspan(100 * i, 100),
            .target = RemoteAddress{1, 1'000 + 100 * i, 2},
            .tell = true,
            .unordered = true};
  }
  Post post(const Write& write) { return connection->post({&write, 1}); }
  // Payload and record, as a ring has them: the n-th message, filled with n.
  Post post_message(std::size_t n) {
    const std::vector<std::byte> payload(300, static_cast<std::byte>(n));
    const std::vector<std::byte> record(64, static_cast<std::byte>(n));
    const std::array chain{
        Write{.body = payload, .target = places + (1'000 + 300 * (n % messages_max))},
        Write{.head = record,
              .target = places + 64 * (n % messages_max),
              .flag_offset = 0,
              .immediate = static_cast<std::uint32_t>(n),
              .message = true}};
    return connection->post(chain);
  }
  void post_and_lose_the_first(std::size_t messages, std::uint32_t taken) {
    for (std::size_t n = 0; n < messages; ++n) EXPECT_EQ(post_message(n), Post::posted);
    first->fail();
    transport->poll_async_events();
    connection->tell_taken(0);
    peer_severs_first(taken);
    transport->progress();
  }
  static std::uint64_t word(std::uint32_t low) { return low | std::uint64_t{~low} << 32; }
  static constexpr std::uint32_t first_bit = 0x8000'0000;
  void peer_says(std::uint64_t word) { std::memcpy(notice.data(), &word, sizeof word); }
  void peer_severs_second() { peer_says(word(0)); }
  void peer_severs_first(std::uint32_t taken) { peer_says(word(first_bit | taken)); }
  std::uint64_t said() const {
    std::uint64_t word = 0;
    std::memcpy(&word, notice.data() + 8, sizeof word);
    return word;
  }

  base::System system;
  std::array<Device*, 2> devices{};
  std::unique_ptr<RailedTransport> transport;
  std::vector<std::byte> memory = std::vector<std::byte>(20'000);
  static constexpr RemoteAddress places{3, 5'000, 4};
  static constexpr std::size_t messages_max = 8;
  std::vector<std::byte> mirror = std::vector<std::byte>(4'000);
  alignas(8) std::array<std::byte, transport::rail_notice_bytes> notice{};
  Wire* first = nullptr;
  Wire* second = nullptr;
  std::unique_ptr<RailedConnection> connection;
};

TEST_F(Rails, carry_all_ordered_writes_on_the_first) {
  for (std::size_t i = 0; i < 10; ++i) {
    Write write = unordered(i);
    write.unordered = false;
    write.tell = i % 3 == 0;
    EXPECT_EQ(post(write), Post::posted);
  }
  EXPECT_EQ(first->posted.size(), 10U);
  EXPECT_TRUE(second->posted.empty());
}

TEST_F(Rails, carry_every_piece_once_whatever_completes_first) {
  // Of each rail some pieces complete between two posts, as the digits say.
  constexpr std::size_t pieces = 6;
  for (std::uint32_t digits = 0; digits < 4 * 4 * 4 * 4 * 4 * 4; ++digits) {
    first->posted.clear();
    second->posted.clear();
    second->reads.clear();
    const std::uint64_t before = connection->completed();
    const std::array begun{first->done, second->done};
    std::uint32_t left = digits;
    for (std::size_t i = 0; i < pieces; ++i, left /= 4) {
      ASSERT_EQ(post(unordered(i)), Post::posted);
      first->done = std::min(first->done + left % 2, begun[0] + first->under_way());
      second->done = std::min(second->done + left / 2 % 2, begun[1] + second->under_way());
      transport->progress();
      ASSERT_LE(connection->completed() - before, first->done - begun[0] + second->done - begun[1]);
    }
    std::array<int, pieces> times{};
    for (const Write& write : first->posted) {
      EXPECT_EQ(write.target.region, 1U);
      ++times[(write.target.offset - 1'000) / 100];
    }
    for (const Write& write : second->posted) {
      EXPECT_EQ(write.target.region, 2U) << "its key on that rail";
      ++times[(write.target.offset - 1'000) / 100];
    }
    for (const int count : times) ASSERT_EQ(count, 1) << digits;
    EXPECT_FALSE(first->posted.empty());
    EXPECT_FALSE(second->posted.empty());
    first->done = begun[0] + first->under_way();
    second->done = begun[1] + second->under_way();
    transport->progress();  // the last read
    second->done = begun[1] + second->under_way();
    ASSERT_EQ(connection->completed() - before, pieces);
  }
}

TEST_F(Rails, count_a_write_on_the_second_when_a_read_behind_it_has_come_back) {
  first->busy = true;
  EXPECT_EQ(post(unordered(0)), Post::posted);
  ASSERT_EQ(second->reads.size(), 1U);
  EXPECT_EQ(second->reads.front().region, 8U) << "the peer's word, by its key on that rail";
  EXPECT_EQ(second->reads.front().offset, 70U);
  EXPECT_EQ(post(unordered(1)), Post::posted);
  EXPECT_EQ(post(unordered(2)), Post::posted);
  EXPECT_EQ(second->reads.size(), 1U) << "one at a time";
  second->done += 1;  // the first write: acknowledged
  transport->progress();
  EXPECT_EQ(connection->completed(), 0U);
  second->done += 1;  // the read
  EXPECT_EQ(connection->completed(), 1U);
  transport->progress();
  EXPECT_EQ(second->reads.size(), 2U) << "behind the two others";
  EXPECT_EQ(connection->completed(), 1U);
  second->done += 2;
  EXPECT_EQ(connection->completed(), 1U);
  second->done += 1;
  EXPECT_EQ(connection->completed(), 3U);
  transport->progress();
  EXPECT_EQ(second->reads.size(), 2U) << "nothing is behind the last write";
}

TEST_F(Rails, take_the_other_one_where_one_is_full) {
  second->busy = true;
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(post(unordered(i)), Post::posted);
  EXPECT_EQ(first->posted.size(), 4U);
  second->busy = false;
  first->busy = true;
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(post(unordered(i)), Post::posted);
  EXPECT_EQ(second->posted.size(), 8U);
  second->busy = true;
  EXPECT_EQ(post(unordered(0)), Post::busy);
}

TEST_F(Rails, carry_on_the_first_what_the_second_cannot_reach) {
  Write closed_there = unordered(0);
  closed_there.target.second_region = 0;
  devices[1]->full = true;
  std::vector<std::byte> source(100);
  const RemoteAddress opened = transport->register_memory(source, RegionKind::source);
  EXPECT_EQ(opened.second_region, 0U);
  Write closed_here = unordered(0);
  closed_here.body = source;
  closed_here.source_region = opened.region;
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(post(closed_there), Post::posted);
    EXPECT_EQ(post(closed_here), Post::posted);
  }
  EXPECT_EQ(first->posted.size(), 8U);
  EXPECT_TRUE(second->posted.empty());
  transport->deregister_memory(opened.region);
  EXPECT_EQ(devices[0]->registered, 2);
  EXPECT_EQ(devices[1]->registered, 2);
}

TEST_F(Rails, post_again_what_the_second_has_lost_and_not_before_the_peer_has_severed_its_end) {
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(post(unordered(i)), Post::posted);
  ASSERT_EQ(second->posted.size(), 3U);
  second->done += 3;  // a write, the read behind it, and a write
  first->done += 3;
  const std::vector<Write> lost{second->posted.begin() + 1, second->posted.end()};
  first->posted.clear();
  second->fail();
  transport->poll_async_events();
  EXPECT_TRUE(second->torn_down) << "before the peer is told";
  ASSERT_EQ(said(), word(0));
  ASSERT_EQ(first->posted.size(), 1U);
  EXPECT_EQ(first->posted.front().target.offset, 70U) << "the word";
  for (int i = 0; i < 3; ++i) {
    transport->poll_async_events();
    transport->progress();
  }
  EXPECT_EQ(first->posted.size(), 1U) << "the peer's device may still place what is late";
  const std::uint64_t completed = connection->completed();

  peer_severs_second();
  first->busy = true;
  transport->poll_async_events();
  EXPECT_EQ(first->posted.size(), 1U);
  first->busy = false;
  transport->progress();
  ASSERT_EQ(first->posted.size(), 1 + lost.size());
  for (std::size_t i = 0; i < lost.size(); ++i) {
    EXPECT_EQ(first->posted[1 + i].target.offset, lost[i].target.offset);
    EXPECT_EQ(first->posted[1 + i].target.region, 1U);
  }
  EXPECT_EQ(connection->completed(), completed);
  first->done += lost.size();
  EXPECT_EQ(connection->completed(), 6U);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(post(unordered(i)), Post::posted);
  EXPECT_EQ(second->posted.size(), 3U) << "nothing more goes there";
  EXPECT_EQ(connection->fault(), nullptr);
}

TEST_F(Rails, sever_the_second_when_the_peer_says_so_and_answer) {
  first->busy = true;
  peer_severs_second();
  transport->poll_async_events();
  EXPECT_TRUE(second->torn_down);
  first->busy = false;
  transport->poll_async_events();
  ASSERT_EQ(first->posted.size(), 1U);
  transport->poll_async_events();
  EXPECT_EQ(first->posted.size(), 1U) << "it is said once";
  EXPECT_EQ(connection->fault(), nullptr);
}

TEST_F(Rails, believe_no_word_that_came_in_part) {
  for (const std::uint64_t whole : {word(0), word(first_bit), word(first_bit | 0x00ff'00ff)}) {
    for (unsigned bytes = 0; bytes < 0xff; ++bytes) {
      std::uint64_t part = 0;
      for (unsigned i = 0; i < 8; ++i) part |= whole & (bytes >> i & 1 ? 0xffULL << 8 * i : 0);
      if (part == whole) continue;  // what is missing is zero
      peer_says(part);
      transport->poll_async_events();
      ASSERT_FALSE(first->torn_down || second->torn_down) << std::hex << part;
    }
  }
}

// ---- the first one fails ----

TEST_F(Rails, hold_ordered_writes_back_from_the_failure_of_the_first_until_both_ends_have_told) {
  EXPECT_EQ(post_message(0), Post::posted);
  first->fail();
  EXPECT_EQ(post_message(1), Post::busy) << "nobody has looked yet";
  EXPECT_FALSE(connection->asks_taken()) << "its packets may still land";
  transport->poll_async_events();
  EXPECT_TRUE(first->torn_down);
  EXPECT_EQ(connection->fault(), nullptr);
  EXPECT_TRUE(connection->asks_taken());
  EXPECT_EQ(post_message(1), Post::busy);
  EXPECT_TRUE(second->posted.empty()) << "what it has taken is not known";

  connection->tell_taken(41);
  EXPECT_FALSE(connection->asks_taken());
  ASSERT_EQ(second->posted.size(), 1U);
  EXPECT_EQ(second->posted[0].target.region, 8U) << "by its key on that rail";
  EXPECT_EQ(second->posted[0].target.offset, 70U);
  EXPECT_EQ(said(), word(first_bit | 41));
  EXPECT_EQ(post_message(1), Post::busy);
  EXPECT_FALSE(connection->delivered());

  peer_severs_first(1);
  transport->progress();
  EXPECT_EQ(post_message(1), Post::posted) << "it had taken all";
  ASSERT_EQ(second->posted.size(), 3U);
  EXPECT_EQ(second->posted[2].target.region, places.second_region);
  EXPECT_EQ(second->posted[2].immediate, 1U);
  EXPECT_TRUE(connection->delivered());
}

TEST_F(Rails, post_again_in_order_the_messages_that_the_peer_has_not_taken_and_no_other) {
  for (std::uint32_t taken = 4; taken <= 12; ++taken) {
    Rails pair;
    pair.post_and_lose_the_first(12, taken);
    ASSERT_EQ(pair.second->posted.size(), 1 + 2 * (12 - taken));
    for (std::size_t n = taken; n < 12; ++n) {
      const std::size_t at = 1 + 2 * (n - taken);
      const Write& payload = pair.second->posted[at];
      const Write& record = pair.second->posted[at + 1];
      EXPECT_EQ(payload.target.region, places.second_region);
      EXPECT_EQ(payload.target.offset, places.offset + 1'000 + 300 * (n % messages_max));
      EXPECT_FALSE(payload.immediate);
      EXPECT_EQ(record.target.region, places.second_region);
      EXPECT_EQ(record.target.offset, places.offset + 64 * (n % messages_max));
      EXPECT_EQ(record.flag_offset, 0U);
      EXPECT_EQ(record.immediate, n);
      EXPECT_EQ(pair.second->placed[at], std::vector<std::byte>(300, static_cast<std::byte>(n)));
      EXPECT_EQ(pair.second->placed[at + 1], std::vector<std::byte>(64, static_cast<std::byte>(n)));
      EXPECT_GE(payload.head.data(), pair.mirror.data()) << "a device may read it later";
    }
  }
}

TEST_F(Rails, post_no_new_message_before_the_device_has_read_those_that_were_posted_again) {
  post_and_lose_the_first(6, 4);
  EXPECT_EQ(post_message(6), Post::busy);
  second->done += 1;
  EXPECT_EQ(post_message(6), Post::busy);
  second->done += 1;
  transport->progress();
  EXPECT_EQ(post_message(6), Post::posted);
}

TEST_F(Rails, post_again_when_a_busy_connection_has_room) {
  for (std::size_t n = 0; n < 3; ++n) EXPECT_EQ(post_message(n), Post::posted);
  first->fail();
  transport->poll_async_events();
  second->busy = true;
  connection->tell_taken(0);
  peer_severs_first(1);
  transport->progress();
  EXPECT_TRUE(second->posted.empty());
  second->busy = false;
  transport->progress();
  EXPECT_EQ(second->posted.size(), 1U + 4U);
}

TEST_F(Rails, take_over_when_the_peer_has_severed_the_first) {
  EXPECT_EQ(post_message(0), Post::posted);
  peer_severs_first(0);
  transport->poll_async_events();
  EXPECT_TRUE(first->torn_down);
  EXPECT_EQ(second->posted.size(), 2U) << "the peer takes it; we have not said anything yet";
  EXPECT_TRUE(connection->asks_taken());
  connection->tell_taken(7);
  EXPECT_EQ(second->posted.size(), 3U);
  EXPECT_EQ(said(), word(first_bit | 7));
}

TEST_F(Rails, bring_the_immediates_of_the_first_until_it_is_told_what_was_taken) {
  first->arrived = {1, 2, 3};
  first->fail();
  transport->poll_async_events();
  EXPECT_EQ(connection->poll_immediate(), 1U);
  connection->tell_taken(1);
  EXPECT_EQ(connection->poll_immediate(), std::nullopt) << "these come again";
  second->arrived = {2};
  EXPECT_EQ(connection->poll_immediate(), 2U);
}

TEST_F(Rails, move_on_the_second_the_pieces_and_reads_that_the_first_had_not_completed) {
  second->busy = true;
  std::vector<std::byte> target(100);
  const RemoteAddress opened = transport->register_memory(target, RegionKind::target);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(post(unordered(i)), Post::posted);
  EXPECT_EQ(connection->read(target, opened.region, {1, 9'000, 2}), Post::posted);
  Write staged = unordered(9);
  staged.unordered = false;
  EXPECT_EQ(post(staged), Post::posted);
  first->done += 1;
  second->busy = false;
  first->fail();
  transport->poll_async_events();
  connection->tell_taken(0);
  EXPECT_EQ(second->posted.size(), 1U) << "the peer's device may still place what is late";
  EXPECT_EQ(connection->completed(), 1U);
  peer_severs_first(0);
  transport->progress();
  ASSERT_EQ(second->posted.size(), 3U);
  EXPECT_EQ(second->posted[1].target.region, 2U);
  EXPECT_EQ(second->posted[1].target.offset, 1'100U);
  EXPECT_EQ(second->posted[2].target.offset, 1'200U);
  ASSERT_EQ(second->reads.size(), 1U);
  EXPECT_EQ(second->reads[0].region, 2U);
  EXPECT_EQ(connection->completed(), 1U);
  second->done += 3;
  EXPECT_EQ(connection->completed(), 5U) << "nobody reads the source of the ordered one any more";
  EXPECT_EQ(post(unordered(4)), Post::posted);
  second->done += 1;
  EXPECT_EQ(connection->completed(), 6U) << "records come behind it on the same rail";
  EXPECT_EQ(second->reads.size(), 1U) << "and no read is needed";
}

TEST_F(Rails, do_not_wait_for_a_port_where_the_other_one_is_up) {
  first->set_doubt(true);
  second->set_doubt(true);
  transport->poll_async_events();
  EXPECT_FALSE(first->torn_down || second->torn_down) << "either may come back";
  second->set_doubt(false);
  transport->poll_async_events();
  EXPECT_TRUE(first->torn_down);
  EXPECT_FALSE(second->torn_down);
  second->set_doubt(true);
  transport->poll_async_events();
  EXPECT_FALSE(second->torn_down) << "there is no other one any more";
  EXPECT_EQ(connection->fault(), nullptr);
}

TEST_F(Rails, name_a_port_that_is_down_before_what_became_of_its_writes) {
  first->set_doubt(true);
  first->fail("a request was refused");
  transport->poll_async_events();
  second->fail("the switch is gone");
  transport->poll_async_events();
  ASSERT_NE(connection->fault(), nullptr);
  EXPECT_EQ(connection->fault()->cause,
            "rxe0 port 1: the port is down; rxe1 port 1: the switch is gone");
}

TEST_F(Rails, are_at_their_end_when_both_fail) {
  first->fail();
  second->fail("the switch is gone");
  EXPECT_EQ(post_message(0), Post::failed);
  ASSERT_NE(connection->fault(), nullptr);
  EXPECT_EQ(connection->fault()->cause,
            "rxe0 port 1: the cable is cut; rxe1 port 1: the switch is gone");
  EXPECT_EQ(connection->fault()->code, ErrorCode::link_failed);
  EXPECT_EQ(connection->fault()->peer, 1);
  EXPECT_FALSE(connection->asks_taken());
  connection->tear_down();
  EXPECT_TRUE(first->torn_down && second->torn_down);
}

TEST_F(Rails, are_at_their_end_when_one_fails_after_the_other) {
  for (const bool first_goes_first : {true, false}) {
    Rails pair;
    (first_goes_first ? pair.first : pair.second)->fail();
    pair.transport->poll_async_events();
    EXPECT_EQ(pair.connection->fault(), nullptr);
    (first_goes_first ? pair.second : pair.first)->fail("the switch is gone");
    pair.transport->poll_async_events();
    ASSERT_NE(pair.connection->fault(), nullptr);
    EXPECT_EQ(pair.connection->fault()->cause,
              first_goes_first ? "rxe0 port 1: the cable is cut; rxe1 port 1: the switch is gone"
                               : "rxe0 port 1: the switch is gone; rxe1 port 1: the cable is cut");
    EXPECT_TRUE(pair.connection->delivered()) << "nobody waits for it";
  }
}

TEST_F(Rails, are_at_their_end_when_each_end_gives_up_another_one) {
  first->fail();
  transport->poll_async_events();
  connection->tell_taken(0);
  peer_severs_second();
  transport->poll_async_events();
  ASSERT_NE(connection->fault(), nullptr);
  EXPECT_EQ(connection->fault()->cause,
            "rxe0 port 1: the cable is cut; rxe1 port 1: the peer has given it up");
}

TEST_F(Rails, are_at_their_end_when_the_peer_has_taken_what_never_was) {
  for (const std::uint32_t taken : {3U, 0x7fff'ffffU}) {
    Rails pair;
    for (std::size_t n = 0; n < 2; ++n) EXPECT_EQ(pair.post_message(n), Post::posted);
    pair.peer_severs_first(taken);
    pair.transport->poll_async_events();
    ASSERT_NE(pair.connection->fault(), nullptr) << taken;
    EXPECT_TRUE(pair.second->posted.empty());
  }
}

TEST_F(Rails, are_at_their_end_when_the_second_cannot_reach_what_the_first_had_to_move) {
  Write closed_there = unordered(0);
  closed_there.target.second_region = 0;
  EXPECT_EQ(post(closed_there), Post::posted);
  first->fail();
  transport->poll_async_events();
  connection->tell_taken(0);
  peer_severs_first(0);
  transport->progress();
  ASSERT_NE(connection->fault(), nullptr);
  EXPECT_NE(connection->fault()->cause.find("the cable is cut"), std::string::npos);
  EXPECT_NE(connection->fault()->cause.find("rxe1 port 1: alone, and"), std::string::npos);
}

}  // namespace
}  // namespace qpmesh
