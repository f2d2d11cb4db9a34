// Two rails over connections that do what the test says.
#include "transport/rails.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
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
  void deregister_memory(std::uint32_t key) noexcept override {
    lasting_.erase(key);
    --registered;
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
    posted.insert(posted.end(), chain.begin(), chain.end());
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
  std::optional<std::uint32_t> poll_immediate() noexcept override { return std::nullopt; }
  const std::byte* load(RemoteAddress, std::size_t) noexcept override { return nullptr; }
  void tear_down() noexcept override { torn_down = true; }
  const ErrorDetail* fault() const noexcept override { return fault_.get(); }

  void fail() { fault_ = std::make_unique<ErrorDetail>(ErrorDetail{.cause = "the cable is cut"}); }

  // All that tells or reads, as completed() counts.
  std::uint64_t under_way() const {
    return static_cast<std::uint64_t>(std::ranges::count(posted, true, &Write::tell)) +
           reads.size();
  }

  std::vector<Write> posted;
  std::vector<RemoteAddress> reads;
  std::uint64_t done = 0;
  bool busy = false;
  bool torn_down = false;

 private:
  std::unique_ptr<ErrorDetail> fault_;
  Capabilities capabilities_{.name = "fake",
                             .registered_sources = true,
                             .inline_bytes_max = 64,
                             .write_bytes_max = std::size_t{1} << 20};
};

class Rails : public testing::Test {
 public:
  static constexpr std::uint32_t first_key = 100;
  static constexpr std::uint32_t second_key = 200;

  Rails() {
    auto first_device = std::make_unique<Device>(first_key);
    auto second_device = std::make_unique<Device>(second_key);
    devices = {first_device.get(), second_device.get()};
    transport = std::make_unique<RailedTransport>(
        system, base::Log{base::LogLevel::off}, std::move(first_device), std::move(second_device));
    transport->register_memory(memory, RegionKind::lasting);
    auto first_wire = std::make_unique<Wire>();
    auto second_wire = std::make_unique<Wire>();
    first = first_wire.get();
    second = second_wire.get();
    // Of the time before: a probe.
    first->done = 2;
    second->done = 2;
    connection =
        std::make_unique<RailedConnection>(RailedConnection::Parts{.transport = transport.get(),
                                                                   .peer = 1,
                                                                   .first = std::move(first_wire),
                                                                   .second = std::move(second_wire),
                                                                   .second_name = "rxe1 port 1",
                                                                   .notice = notice.data(),
                                                                   .peer_notice = {7, 70, 8}});
  }

  // Of 100 bytes from the i-th hundred of memory: too long to be copied.
  Write unordered(std::size_t i) {
    return {.body = std::span{memory}.subspan(100 * i, 100),
            .target = RemoteAddress{1, 1'000 + 100 * i, 2},
            .tell = true,
            .unordered = true};
  }
  Post post(const Write& write) { return connection->post({&write, 1}); }
  void peer_severs() { std::copy_n("severed!", 8, reinterpret_cast<char*>(notice.data())); }
  bool has_severed() const {
    return std::equal(notice.begin() + 8, notice.begin() + 16,
                      reinterpret_cast<const std::byte*>("severed!"));
  }

  base::System system;
  std::array<Device*, 2> devices{};
  std::unique_ptr<RailedTransport> transport;
  std::vector<std::byte> memory = std::vector<std::byte>(20'000);
  alignas(8) std::array<std::byte, RailedConnection::notice_bytes> notice{};
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
  EXPECT_EQ(devices[0]->registered, 1);
  EXPECT_EQ(devices[1]->registered, 1);
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
  ASSERT_TRUE(has_severed());
  ASSERT_EQ(first->posted.size(), 1U);
  EXPECT_EQ(first->posted.front().target.offset, 70U) << "the word";
  for (int i = 0; i < 3; ++i) {
    transport->poll_async_events();
    transport->progress();
  }
  EXPECT_EQ(first->posted.size(), 1U) << "the peer's device may still place what is late";
  const std::uint64_t completed = connection->completed();

  peer_severs();
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
  peer_severs();
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
  for (std::size_t bytes = 0; bytes < 8; ++bytes) {
    notice = {};
    std::copy_n("severed!", bytes, reinterpret_cast<char*>(notice.data()));
    transport->poll_async_events();
    EXPECT_FALSE(second->torn_down);
  }
}

TEST_F(Rails, are_at_their_end_when_the_first_fails) {
  first->fail();
  transport->poll_async_events();
  ASSERT_NE(connection->fault(), nullptr);
  EXPECT_EQ(connection->fault()->cause, "the cable is cut");
  Write write = unordered(0);
  write.unordered = false;
  EXPECT_EQ(post(write), Post::failed);
  connection->tear_down();
  EXPECT_TRUE(first->torn_down && second->torn_down);
}

}  // namespace
}  // namespace qpmesh
