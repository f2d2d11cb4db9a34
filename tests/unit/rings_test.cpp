// SPDX-License-Identifier: MIT
// A pair of rings over memory. What they are made of: record_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <memory>
#include <new>
#include <optional>
#include <random>
#include <vector>

#include "messaging/rings/receive_ring.hpp"
#include "messaging/rings/send_ring.hpp"

namespace {

using namespace qpmesh;
using namespace qpmesh::messaging;

// Places writes at once in memory that the test owns; takes nothing while busy.
class MemoryConnection final : public transport::Connection {
 public:
  MemoryConnection(const transport::Capabilities& capabilities, std::span<std::byte> memory)
      : capabilities_{capabilities}, memory_{memory} {}

  const transport::Capabilities& capabilities() const noexcept override { return capabilities_; }

  bool busy = false;
  bool completes = true;  // or keeps every source
  std::deque<std::uint32_t> arrivals;
  std::vector<std::uint64_t> offsets;  // of the last chain's writes

  transport::Post post(std::span<const transport::Write> chain) noexcept override {
    if (busy) return transport::Post::busy;
    offsets.clear();
    for (const transport::Write& write : chain) {
      const std::size_t bytes = write.head.size() + write.body.size();
      EXPECT_LE(write.target.offset + bytes, memory_.size()) << "a write outside the slot";
      if (write.target.offset + bytes > memory_.size()) return transport::Post::failed;
      std::byte* const to = memory_.data() + write.target.offset;
      if (!write.head.empty()) std::memcpy(to, write.head.data(), write.head.size());
      if (!write.body.empty())
        std::memcpy(to + write.head.size(), write.body.data(), write.body.size());
      offsets.push_back(write.target.offset);
      if (write.immediate) arrivals.push_back(*write.immediate);
      if (write.tell && completes) ++completed_;
    }
    return transport::Post::posted;
  }
  transport::Post read(std::span<std::byte>, std::optional<std::uint32_t>,
                       transport::RemoteAddress) noexcept override {
    return transport::Post::failed;
  }
  std::uint64_t completed() const noexcept override { return completed_; }
  std::optional<std::uint32_t> poll_immediate() noexcept override {
    if (arrivals.empty()) return std::nullopt;
    const std::uint32_t arrival = arrivals.front();
    arrivals.pop_front();
    return arrival;
  }
  const std::byte* load(transport::RemoteAddress, std::size_t) noexcept override { return nullptr; }
  void tear_down() noexcept override {}
  const ErrorDetail* fault() const noexcept override { return nullptr; }

 private:
  const transport::Capabilities& capabilities_;
  std::span<std::byte> memory_;
  std::uint64_t completed_ = 0;
};

using Out = SendRing<ProcessAtomics>;
using In = ReceiveRing<ProcessAtomics>;
using Take = In::Take;

transport::Capabilities ordered() {
  return {.name = "memory",
          .ordered_flag = true,
          .inline_bytes_max = ~std::size_t{0},
          .write_bytes_max = ~std::size_t{0}};
}
transport::Capabilities proven_by_checksum() {
  transport::Capabilities capabilities = ordered();
  capabilities.ordered_flag = false;
  return capabilities;
}
transport::Capabilities told_by_immediates() {
  transport::Capabilities capabilities = proven_by_checksum();
  capabilities.small = capabilities.medium = transport::Notification::immediate;
  return capabilities;
}

// Exactly one slot, so that the address sanitizer sees the first byte outside.
struct Slot {
  explicit Slot(RingLayout layout)
      : bytes{RingLayout::payload_offset + layout.payload_ring_units * unit_bytes},
        memory{static_cast<std::byte*>(::operator new(bytes, std::align_val_t{128}))} {
    std::memset(memory, 0, bytes);
  }
  ~Slot() { ::operator delete(memory, std::align_val_t{128}); }
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;

  std::size_t bytes;
  std::byte* memory;
};

struct RingPair {
  static constexpr RingLayout layout{.payload_ring_units = 64};
  static constexpr std::uint32_t seed = 77;
  static constexpr std::uint32_t reverse_seed = 78;

  explicit RingPair(const transport::Capabilities& its_capabilities,
                    std::uint32_t first_message = 0)
      : capabilities{its_capabilities},
        out{connection,
            capabilities,
            {.slot = {},
             .credit_cell = reverse.memory + RingLayout::credit_cell_offset,
             .staging = staging},
            layout,
            seed,
            reverse_seed,
            first_message},
        in{connection, capabilities, slot.memory, layout, seed, first_message} {}

  static Record record_of(RecordKind kind, std::size_t body_bytes, std::uint64_t key,
                          std::uint64_t total_bytes) {
    Record record;
    std::memset(record.bytes, 0, sizeof record.bytes);
    record.header() = {.sequence = 0,
                       .checksum = 0,
                       .kind = kind,
                       .flags = 0,
                       .length_words = static_cast<std::uint8_t>(record_length(body_bytes) / 8),
                       .inline_bytes = 0,
                       .consumed = 0,
                       .communicator = 1,
                       .key = key,
                       .total_bytes = total_bytes,
                       .signature = 0};
    return record;
  }
  Out::Sent send_inline(std::uint64_t key, std::size_t bytes,
                        Out::Priority priority = Out::Priority::data) {
    Record record = record_of(RecordKind::eager_inline, bytes, key, bytes);
    record.header().inline_bytes = static_cast<std::uint8_t>(bytes);
    for (std::size_t i = 0; i < bytes; ++i) record.body()[i] = static_cast<std::byte>(key + i);
    return out.send(record, {}, priority, {});
  }
  Out::Sent send_payload(std::uint64_t key, std::size_t bytes) {
    std::vector<std::byte> payload(bytes);
    for (std::size_t i = 0; i < bytes; ++i) payload[i] = static_cast<std::byte>(key + i);
    Record record = record_of(RecordKind::eager_payload, sizeof(PayloadPlace), key, bytes);
    return out.send(record, payload, Out::Priority::data, {});
  }
  Out::Sent send_segment(std::size_t bytes) {
    const std::vector<std::byte> payload(bytes);
    Record record = record_of(RecordKind::segment, sizeof(SegmentBody), 0, bytes);
    return out.send(record, payload, Out::Priority::data, {});
  }
  // The message before is read.
  Take take() {
    in.release(message);
    return in.take(message, [](const Immediate&) {});
  }
  // Taken, of this key, with its bytes unharmed.
  void expect_taken(std::uint64_t key, std::size_t bytes) {
    ASSERT_EQ(take(), Take::taken);
    if (message.record.header().kind == RecordKind::pad) {
      ASSERT_EQ(take(), Take::taken);
    }
    ASSERT_EQ(message.record.header().key, key);
    ASSERT_EQ(message.record.header().total_bytes, bytes);
    const bool is_inline = message.record.header().kind == RecordKind::eager_inline;
    const std::byte* const at = is_inline ? message.inline_payload : message.payload;
    for (std::size_t i = 0; i < bytes; ++i)
      ASSERT_EQ(at[i], static_cast<std::byte>(key + i)) << "byte " << i;
    in.release(message);
    in.free_until(in.next_unit());
  }
  void return_credits() {
    ASSERT_EQ(reverse_out.return_credits(in.consumed()), Out::Sent::posted);
    read_credits();
  }
  void read_credits() {
    out.poll_credits();
    for (const std::uint32_t immediate : back.arrivals)
      out.take_credits(decode_immediate(immediate));
    back.arrivals.clear();
  }

  transport::Capabilities capabilities;
  Slot slot{layout};
  Slot reverse{layout};
  std::vector<std::byte> staging = std::vector<std::byte>(layout.staging_bytes());
  MemoryConnection connection{capabilities, {slot.memory, slot.bytes}};
  MemoryConnection back{capabilities, {reverse.memory, reverse.bytes}};
  Out out;
  Out reverse_out{
      back,
      capabilities,
      {.slot = {}, .credit_cell = slot.memory + RingLayout::credit_cell_offset, .staging = staging},
      layout,
      reverse_seed,
      seed};
  In in;
  TakenMessage message;
};

class Rings : public ::testing::TestWithParam<transport::Capabilities (*)()> {};
std::string name_of(const ::testing::TestParamInfo<transport::Capabilities (*)()>& suite) {
  constexpr std::array names{"ordered_flags", "checksums", "immediates"};
  return names[suite.index];
}
INSTANTIATE_TEST_SUITE_P(of, Rings,
                         ::testing::Values(ordered, proven_by_checksum, told_by_immediates),
                         name_of);

TEST_P(Rings, bring_records_and_payloads_of_all_lengths_in_order_many_times_around) {
  RingPair pair{GetParam()()};
  std::mt19937 random{3};
  std::deque<std::pair<std::uint64_t, std::size_t>> under_way;
  std::uint64_t key = 0;
  for (int i = 0; i < 20'000; ++i) {
    if (random() % 2 == 0) {
      const bool small = random() % 2 == 0;
      const std::size_t bytes =
          small ? random() % (inline_bytes_max + 1) : inline_bytes_max + 1 + random() % 1500;
      const Out::Sent sent = small ? pair.send_inline(key, bytes) : pair.send_payload(key, bytes);
      if (sent == Out::Sent::posted) under_way.emplace_back(key++, bytes);
    } else if (!under_way.empty()) {
      ASSERT_NO_FATAL_FAILURE(pair.expect_taken(under_way.front().first, under_way.front().second));
      under_way.pop_front();
      if (random() % 4 == 0) pair.return_credits();
    } else {
      ASSERT_EQ(pair.take(), Take::nothing);
      pair.return_credits();
    }
  }
  EXPECT_GT(key, 3'000U);
}

// A queue pair keeps as many receive requests.
std::uint32_t immediates_under_way(transport::Notification small, transport::Notification medium) {
  transport::Capabilities capabilities = proven_by_checksum();
  capabilities.small = small;
  capabilities.medium = medium;
  RingPair pair{capabilities};
  while (pair.send_segment(1) == Out::Sent::posted) {}
  while (pair.send_inline(0, 0, Out::Priority::control) == Out::Sent::posted) {}
  // Of as many messages that it has taken, one at a time.
  Credits consumed;
  while (consumed.lines < record_ring_lines) {
    ++consumed.lines;
    EXPECT_EQ(pair.out.return_credits(consumed), Out::Sent::posted);
  }
  while (consumed.units < RingPair::layout.payload_ring_units) {
    consumed.units += gathered_units_min;
    EXPECT_EQ(pair.out.return_credits(consumed), Out::Sent::posted);
  }
  return static_cast<std::uint32_t>(pair.connection.arrivals.size());
}

TEST(immediates, that_nobody_takes_are_at_most_as_many_as_the_layout_says) {
  using transport::Notification;
  constexpr RingLayout layout = RingPair::layout;
  const auto bound = [&](Notification small, Notification medium) {
    return layout.immediates_max(small, medium);
  };
  EXPECT_EQ(immediates_under_way(Notification::poll, Notification::poll), 0U);
  EXPECT_EQ(bound(Notification::poll, Notification::poll), 0U);

  EXPECT_EQ(immediates_under_way(Notification::poll, Notification::immediate),
            bound(Notification::poll, Notification::immediate));

  // The two that are told again when a rail has failed.
  EXPECT_EQ(immediates_under_way(Notification::immediate, Notification::immediate) + 2,
            bound(Notification::immediate, Notification::immediate));
}

TEST(immediates, of_a_ring_of_128_KiB_need_512_receives_with_payload_alone_and_1282_in_all) {
  using transport::Notification;
  constexpr RingLayout layout{.payload_ring_units = 2048};
  EXPECT_EQ(layout.immediates_max(Notification::poll, Notification::immediate), 512U);
  EXPECT_EQ(layout.immediates_max(Notification::immediate, Notification::immediate), 1282U);
}

TEST_P(Rings, that_are_empty_begin_at_their_start_again_and_go_on_behind_what_is_held) {
  RingPair pair{GetParam()()};
  const std::byte* first = nullptr;
  for (std::uint64_t key = 0; key < 100; ++key) {
    ASSERT_EQ(pair.send_payload(key, 300 + key), Out::Sent::posted);
    ASSERT_NO_FATAL_FAILURE(pair.expect_taken(key, 300 + key));
    if (key == 0) first = pair.message.payload;
    EXPECT_EQ(pair.message.payload, first) << "of the lines that both caches have";
    pair.return_credits();
  }
  ASSERT_EQ(pair.send_payload(100, 300), Out::Sent::posted);
  ASSERT_EQ(pair.send_payload(101, 300), Out::Sent::posted);
  ASSERT_NO_FATAL_FAILURE(pair.expect_taken(100, 300));
  ASSERT_NO_FATAL_FAILURE(pair.expect_taken(101, 300));
  EXPECT_GT(pair.message.payload, first);
}

TEST_P(Rings, go_on_where_message_numbers_wrap) {
  for (const std::uint32_t first_message : {0x7ffffff0U, 0xfffffff0U}) {
    RingPair pair{GetParam()(), first_message};
    for (std::uint64_t key = 0; key < 200; ++key) {
      const std::size_t bytes = key % 3 == 0 ? 300 : 100;
      ASSERT_EQ(key % 3 == 0 ? pair.send_payload(key, bytes) : pair.send_inline(key, bytes),
                Out::Sent::posted)
          << key;
      ASSERT_NO_FATAL_FAILURE(pair.expect_taken(key, bytes));
      pair.return_credits();
    }
    EXPECT_EQ(pair.take(), Take::nothing);
  }
}

TEST_P(Rings, filled_with_data_still_take_control) {
  RingPair pair{GetParam()()};
  std::uint64_t sent = 0;
  while (pair.send_inline(sent, 8) == Out::Sent::posted) ++sent;
  EXPECT_EQ(sent, record_ring_lines - Out::reserved_lines);
  EXPECT_EQ(pair.send_inline(sent, 8), Out::Sent::no_lines);
  for (std::uint32_t line = 0; line < Out::reserved_lines; ++line, ++sent) {
    EXPECT_EQ(pair.send_inline(sent, 8, Out::Priority::control), Out::Sent::posted);
  }
  EXPECT_EQ(pair.send_inline(sent, 8, Out::Priority::control), Out::Sent::no_lines);
  for (std::uint64_t key = 0; key < sent; ++key) ASSERT_NO_FATAL_FAILURE(pair.expect_taken(key, 8));
  EXPECT_EQ(pair.send_inline(sent, 8), Out::Sent::no_lines)
      << "free at the receiver, but the sender does not know yet";
  pair.return_credits();
  EXPECT_EQ(pair.send_inline(sent, 8), Out::Sent::posted);
  ASSERT_NO_FATAL_FAILURE(pair.expect_taken(sent, 8));
}

TEST_P(Rings, refuse_payload_that_does_not_fit_and_leave_everything_as_it_was) {
  RingPair pair{GetParam()()};
  std::uint64_t sent = 0;
  while (pair.out.has_units(1024)) {
    ASSERT_EQ(pair.send_payload(sent, 1024), Out::Sent::posted);
    ++sent;
  }
  EXPECT_GE(sent, 3U);
  EXPECT_EQ(pair.send_payload(sent, 1024), Out::Sent::no_units);
  EXPECT_EQ(pair.send_inline(sent, 16), Out::Sent::posted) << "small messages still pass";
  for (std::uint64_t key = 0; key < sent; ++key)
    ASSERT_NO_FATAL_FAILURE(pair.expect_taken(key, 1024));
  ASSERT_NO_FATAL_FAILURE(pair.expect_taken(sent, 16));
  pair.return_credits();
  EXPECT_TRUE(pair.out.has_units(1024));
}

TEST_P(Rings, of_a_busy_connection_change_nothing_until_it_takes_the_message) {
  RingPair pair{GetParam()()};
  pair.connection.busy = true;
  EXPECT_EQ(pair.send_inline(1, 8), Out::Sent::busy);
  EXPECT_EQ(pair.send_payload(1, 500), Out::Sent::busy);
  EXPECT_EQ(pair.take(), Take::nothing);
  pair.connection.busy = false;
  EXPECT_EQ(pair.send_payload(2, 500), Out::Sent::posted);
  ASSERT_NO_FATAL_FAILURE(pair.expect_taken(2, 500));
}

// Where the flag alone decides, that of a message taken before may stay.
TEST_P(Rings, leave_nothing_in_consumed_lines_that_looks_like_a_later_record) {
  const transport::Capabilities capabilities = GetParam()();
  RingPair pair{capabilities};
  const auto is_harmless = [&](std::span<const std::byte> line, std::uint64_t messages) {
    std::uint32_t flag = 0;
    std::memcpy(&flag, line.data(), sizeof flag);
    for (std::uint32_t message = 0; capabilities.ordered_flag && message < messages; ++message) {
      if (flag == sequence_word(message)) return true;
    }
    return std::ranges::all_of(line, [](std::byte byte) { return byte == std::byte{0}; });
  };
  for (std::uint64_t key = 0; key < 200; ++key) {
    ASSERT_EQ(pair.send_inline(key, key % (inline_bytes_max + 1)), Out::Sent::posted);
    ASSERT_NO_FATAL_FAILURE(pair.expect_taken(key, key % (inline_bytes_max + 1)));
    pair.return_credits();
    // Messages: a record that does not fit behind the last one has a pad before it.
    for (std::size_t line = 0; line < record_ring_lines; ++line)
      ASSERT_TRUE(is_harmless({pair.slot.memory + line * line_bytes, line_bytes}, 2 * (key + 1)))
          << key;
  }
}

// Another rail takes over: what is not taken is posted again.
TEST_P(Rings, that_start_over_forget_what_was_not_taken_and_tell_how_much_was) {
  for (const std::uint32_t first_message : {0U, 0x7ffffff0U, 0xfffffff0U}) {
    RingPair pair{GetParam()(), first_message};
    constexpr std::uint64_t sent = 40;
    constexpr std::uint64_t taken = 23;
    const auto bytes_of = [](std::uint64_t key) { return key % 5 == 0 ? 180 : 7 * (key % 20); };
    for (std::uint64_t key = 0; key < sent; ++key) {
      ASSERT_EQ(key % 5 == 0 ? pair.send_payload(key, bytes_of(key))
                             : pair.send_inline(key, bytes_of(key)),
                Out::Sent::posted);
    }
    for (std::uint64_t key = 0; key < taken; ++key)
      ASSERT_NO_FATAL_FAILURE(pair.expect_taken(key, bytes_of(key)));
    const std::span records{pair.slot.memory, record_ring_lines * line_bytes};
    const std::vector<std::byte> posted{records.begin(), records.end()};
    EXPECT_EQ(pair.in.start_over(), taken);
    EXPECT_TRUE(std::ranges::all_of(records, [](std::byte byte) { return byte == std::byte{0}; }));
    std::ranges::copy(posted, records.begin());
    for (std::uint64_t key = taken; key < sent; ++key)
      ASSERT_NO_FATAL_FAILURE(pair.expect_taken(key, bytes_of(key)));
    EXPECT_EQ(pair.take(), Take::nothing);
    EXPECT_EQ(pair.in.start_over(), sent);
  }
}

TEST(rings_that_start_over, take_an_immediate_that_was_not_due_once_when_it_comes_again) {
  transport::Capabilities mixed = proven_by_checksum();
  mixed.medium = transport::Notification::immediate;
  RingPair pair{mixed};
  ASSERT_EQ(pair.send_inline(1, 8), Out::Sent::posted);
  ASSERT_EQ(pair.send_payload(2, 500), Out::Sent::posted);
  const std::span record{pair.slot.memory, line_bytes};
  const std::vector<std::byte> posted{record.begin(), record.end()};
  const std::deque<std::uint32_t> immediates = pair.connection.arrivals;
  std::ranges::fill(record, std::byte{0});
  ASSERT_EQ(pair.take(), Take::nothing);
  ASSERT_TRUE(pair.connection.arrivals.empty()) << "it is held until the record comes";
  EXPECT_EQ(pair.in.start_over(), 0U);
  std::ranges::copy(posted, record.begin());
  pair.connection.arrivals = immediates;
  ASSERT_NO_FATAL_FAILURE(pair.expect_taken(1, 8));
  ASSERT_NO_FATAL_FAILURE(pair.expect_taken(2, 500));
  EXPECT_EQ(pair.take(), Take::nothing);
}

TEST_P(Rings, whose_counts_may_be_lost_tell_them_again) {
  RingPair pair{GetParam()()};
  for (std::uint64_t key = 0; key < 3; ++key) {
    ASSERT_EQ(pair.send_payload(key, 300), Out::Sent::posted);
    ASSERT_NO_FATAL_FAILURE(pair.expect_taken(key, 300));
  }
  const Credits consumed = pair.in.consumed();
  ASSERT_EQ(pair.reverse_out.return_credits(consumed), Out::Sent::posted);
  std::memset(pair.reverse.memory + RingLayout::credit_cell_offset, 0, sizeof(CreditCell));
  pair.back.arrivals.clear();
  EXPECT_TRUE(pair.reverse_out.has_told(consumed));
  EXPECT_FALSE(pair.reverse_out.owes(consumed));
  pair.reverse_out.forget_told();
  EXPECT_FALSE(pair.reverse_out.has_told(consumed));
  pair.return_credits();
  EXPECT_TRUE(pair.reverse_out.has_told(consumed));
  for (std::uint64_t key = 3; key < 6; ++key)
    EXPECT_EQ(pair.send_payload(key, 1'200), Out::Sent::posted) << "all of the ring is free";
}

TEST(a_polled_payload, is_written_before_the_record_that_tells_of_it) {
  for (const auto& capabilities : {ordered(), proven_by_checksum()}) {
    RingPair pair{capabilities};
    ASSERT_EQ(pair.send_payload(1, 500), Out::Sent::posted);
    ASSERT_EQ(pair.connection.offsets.size(), 2U);
    EXPECT_EQ(pair.connection.offsets[0], RingLayout::payload_offset);
    EXPECT_EQ(pair.connection.offsets[1], RingLayout::records_offset);
  }
}

TEST(a_polled_flag, of_another_message_than_the_next_is_not_taken) {
  for (const auto& capabilities : {ordered(), proven_by_checksum()}) {
    for (const std::uint32_t other : {0U, 4U, 6U, 5U + record_ring_lines}) {
      RingPair pair{capabilities, 5};
      ASSERT_EQ(pair.send_inline(1, 8), Out::Sent::posted);
      const std::uint32_t word = sequence_word(other);
      std::memcpy(pair.slot.memory, &word, sizeof word);
      EXPECT_EQ(pair.take(), Take::nothing) << other;
      EXPECT_EQ(pair.in.partial_records(), 0U) << "its bytes were not even looked at";
    }
  }
}

// How many messages a sender stages before it must wait for a completion; the connection has
// carried so many writes before.
int staged_until_busy(int writes_before) {
  transport::Capabilities capabilities = proven_by_checksum();
  capabilities.inline_bytes_max = 220;
  constexpr RingLayout layout{.payload_ring_units = 1024};
  Slot slot{layout};
  MemoryConnection connection{capabilities, {slot.memory, slot.bytes}};
  for (int i = 0; i < writes_before; ++i)
    EXPECT_EQ(connection.post(std::array{transport::Write{.tell = true}}), transport::Post::posted);
  connection.completes = false;
  std::vector<std::byte> staging(16 * unit_bytes);
  Out out{connection,
          capabilities,
          {.slot = {}, .credit_cell = slot.memory, .staging = staging},
          layout,
          1,
          2};
  const std::vector<std::byte> payload(4 * unit_bytes);
  int sent = 0;
  for (; sent < 100; ++sent) {
    Record record =
        RingPair::record_of(RecordKind::eager_payload, sizeof(PayloadPlace), 1, payload.size());
    if (out.send(record, payload, Out::Priority::data, {}) != Out::Sent::posted) break;
  }
  return sent;
}

TEST(staging, is_not_reused_for_the_completions_of_writes_that_came_before_the_ring) {
  EXPECT_EQ(staged_until_busy(0), 4);
  EXPECT_EQ(staged_until_busy(1), 4);
  EXPECT_EQ(staged_until_busy(3), 4);
}

// With its record it takes more than half of the staging.
TEST(staging, that_is_empty_takes_the_largest_message_wherever_the_last_one_ended) {
  constexpr std::size_t largest_bytes = RingPair::layout.payload_ring_units * unit_bytes / 4;
  for (transport::Capabilities capabilities : {proven_by_checksum(), told_by_immediates()}) {
    capabilities.inline_bytes_max = 0;
    for (std::size_t units = 1; units <= largest_bytes / unit_bytes; ++units) {
      RingPair pair{capabilities};
      for (const std::size_t bytes : {units * unit_bytes, largest_bytes, largest_bytes}) {
        ASSERT_EQ(pair.send_payload(units, bytes), Out::Sent::posted)
            << bytes << " after " << units;
        ASSERT_NO_FATAL_FAILURE(pair.expect_taken(units, bytes));
        pair.return_credits();
      }
    }
  }
}

// The other end of the reverse direction, where an immediate may say that the cell has been
// written.
TEST_P(Rings, return_credits_without_taking_a_line) {
  const transport::Capabilities capabilities = GetParam()();
  RingPair pair{capabilities};
  In reverse_in{pair.back, capabilities, pair.reverse.memory, RingPair::layout,
                RingPair::reverse_seed};
  for (int round = 0; round < 2'000; ++round) {
    std::uint64_t sent = 0;
    while (pair.send_inline(sent, 8) == Out::Sent::posted) ++sent;
    ASSERT_GT(sent, 0U) << "round " << round;
    for (std::uint64_t key = 0; key < sent; ++key)
      ASSERT_NO_FATAL_FAILURE(pair.expect_taken(key, 8));
    EXPECT_TRUE(pair.reverse_out.owes(pair.in.consumed()));
    ASSERT_EQ(pair.reverse_out.return_credits(pair.in.consumed()), Out::Sent::posted);
    EXPECT_FALSE(pair.reverse_out.owes(pair.in.consumed()));
    TakenMessage none;
    EXPECT_EQ(pair.send_inline(sent, 8), Out::Sent::no_lines) << "nobody has looked";
    const auto take_credits = [&](const Immediate& immediate) { pair.out.take_credits(immediate); };
    ASSERT_EQ(reverse_in.take(none, take_credits), Take::nothing);
    pair.out.poll_credits();
    EXPECT_EQ(pair.send_inline(sent, 8), Out::Sent::posted);
    ASSERT_NO_FATAL_FAILURE(pair.expect_taken(sent, 8));
    pair.return_credits();
  }
}

// A sender that is behind with reading: records that carry counts, and the cell, in every order
// that may be seen.
TEST_P(Rings, take_the_newest_of_the_credits_in_records_and_cell_whichever_is_read_first) {
  const transport::Capabilities capabilities = GetParam()();
  RingPair pair{capabilities};
  In reverse_in{pair.back, capabilities, pair.reverse.memory, RingPair::layout,
                RingPair::reverse_seed};
  std::mt19937 random{6};
  std::uint64_t key = 0;
  TakenMessage back;
  const auto read_records = [&] {
    const auto take_credits = [&](const Immediate& immediate) { pair.out.take_credits(immediate); };
    while (reverse_in.take(back, take_credits) == Take::taken) {
      pair.out.take_credits(back.record.header());
      reverse_in.release(back);
    }
  };
  for (int i = 0; i < 20'000; ++i) {
    const std::size_t bytes = random() % 2 == 0 ? 8 : 64 * (1 + random() % 8);
    const bool small = bytes == 8;
    const Out::Sent sent = small ? pair.send_inline(key, bytes) : pair.send_payload(key, bytes);
    if (sent == Out::Sent::posted) {
      ASSERT_NO_FATAL_FAILURE(pair.expect_taken(key++, bytes));
    }
    Record record = RingPair::record_of(RecordKind::finished, sizeof(RendezvousBody), key, 0);
    if (random() % 2 == 0) {
      pair.reverse_out.send(record, {}, Out::Priority::control, pair.in.consumed());
    } else if (random() % 2 == 0) {
      ASSERT_EQ(pair.reverse_out.return_credits(pair.in.consumed()), Out::Sent::posted);
    }
    if (random() % 4 == 0) pair.out.poll_credits();
    if (random() % 32 == 0) {
      read_records();
      // Its own credits, past the test: all of its lines are free again.
      CreditCell free{.consumed = reverse_in.consumed()};
      free.checksum = credit_checksum(free.consumed, RingPair::seed);
      std::memcpy(pair.slot.memory + RingLayout::credit_cell_offset, &free, sizeof free);
      pair.reverse_out.poll_credits();
    }
  }
  EXPECT_GT(key, 10'000U);
  ASSERT_EQ(pair.reverse_out.return_credits(pair.in.consumed()), Out::Sent::posted);
  read_records();
  pair.out.poll_credits();
  EXPECT_TRUE(pair.out.has_units(RingPair::layout.payload_ring_units / 2 * unit_bytes));
}

TEST(a_record, carries_one_count_of_credits) {
  const auto carried = [](const transport::Capabilities& capabilities, const Credits& consumed) {
    RingPair pair{capabilities};
    Record record = RingPair::record_of(RecordKind::finished, sizeof(RendezvousBody), 0, 0);
    EXPECT_EQ(pair.out.send(record, {}, Out::Priority::control, consumed), Out::Sent::posted);
    return pair.slot.memory[offsetof(RecordHeader, flags)] == std::byte{flag_consumed_lines}
               ? std::pair{'l',
                           reinterpret_cast<const Record*>(pair.slot.memory)->header().consumed}
               : std::pair{'u',
                           reinterpret_cast<const Record*>(pair.slot.memory)->header().consumed};
  };
  for (const transport::Capabilities& capabilities : {ordered(), proven_by_checksum()}) {
    constexpr std::uint32_t quarter = record_ring_lines / 4;
    EXPECT_EQ(carried(capabilities, {.lines = quarter - 1, .units = 70'000}),
              (std::pair{'u', 70'000U}));
    EXPECT_EQ(carried(capabilities, {.lines = quarter, .units = 70'000}),
              (std::pair{'l', quarter}));
    EXPECT_EQ(carried(capabilities, {.lines = 3, .units = 0}), (std::pair{'l', 3U}));
  }
}

// At the start, or behind the ring's end, where a longer one goes: both ends must mean the same.
TEST(a_ring_that_is_empty, forgets_the_place_of_a_message_that_did_not_leave) {
  RingPair pair{ordered()};
  for (const std::uint64_t key : {0U, 1U}) {
    ASSERT_EQ(pair.send_payload(key, 20 * unit_bytes), Out::Sent::posted);
    ASSERT_NO_FATAL_FAILURE(pair.expect_taken(key, 20 * unit_bytes));
  }
  pair.return_credits();
  pair.connection.busy = true;
  ASSERT_EQ(pair.send_payload(2, unit_bytes), Out::Sent::busy);
  pair.connection.busy = false;
  ASSERT_EQ(pair.send_payload(2, 30 * unit_bytes), Out::Sent::posted);
  ASSERT_NO_FATAL_FAILURE(pair.expect_taken(2, 30 * unit_bytes));
  pair.return_credits();
  EXPECT_TRUE(pair.out.has_units(32 * unit_bytes));
  EXPECT_EQ(pair.in.next_unit(), 94U) << "24 units at the end of the ring are skipped";
}

TEST(a_credit_cell, with_a_wrong_checksum_returns_nothing_where_flags_are_not_ordered) {
  RingPair pair{proven_by_checksum()};
  while (pair.send_inline(0, 8) == Out::Sent::posted) {}
  CreditCell cell{.consumed = {.lines = 1, .units = 0}};
  cell.checksum = credit_checksum(cell.consumed, RingPair::reverse_seed);
  std::byte* const at = pair.reverse.memory + RingLayout::credit_cell_offset;
  CreditCell torn = cell;
  ++torn.checksum;
  std::memcpy(at, &torn, sizeof torn);
  pair.out.poll_credits();
  EXPECT_EQ(pair.send_inline(0, 8), Out::Sent::no_lines);
  std::memcpy(at, &cell, sizeof cell);  // the rest of the bytes appear
  pair.out.poll_credits();
  EXPECT_EQ(pair.send_inline(0, 8), Out::Sent::posted);
}

// Counts are independent words, read in any order, each old or new: none of the mixtures frees too
// much.
TEST(credits_in_shared_memory, of_which_one_count_is_seen_before_the_other_free_what_each_says) {
  for (const bool lines_first : {false, true}) {
    RingPair pair{ordered()};
    while (pair.send_payload(1, 512) == Out::Sent::posted) {}
    const std::size_t seen_first =
        lines_first ? offsetof(Credits, lines) : offsetof(Credits, units);
    const std::uint64_t count = 8;  // lines of eight messages, or the units of one
    std::memcpy(pair.reverse.memory + RingLayout::credit_cell_offset + seen_first, &count,
                sizeof count);
    pair.out.poll_credits();
    EXPECT_EQ(pair.out.has_units(512), !lines_first);
    EXPECT_FALSE(pair.out.has_units(1024));
    EXPECT_EQ(pair.send_payload(2, 512), lines_first ? Out::Sent::no_units : Out::Sent::posted);
  }
}

TEST(a_polled_record, that_is_not_yet_whole_is_looked_at_again_and_taken_when_it_is) {
  RingPair pair{proven_by_checksum()};
  ASSERT_EQ(pair.send_inline(5, 120), Out::Sent::posted);
  const std::size_t length = record_length(120);
  for (std::size_t byte = 4; byte < length; ++byte) {
    const std::byte whole = pair.slot.memory[byte];
    pair.slot.memory[byte] = whole ^ std::byte{0x10};
    ASSERT_EQ(pair.take(), Take::nothing) << "byte " << byte << " was wrong and not noticed";
    pair.slot.memory[byte] = whole;
  }
  EXPECT_EQ(pair.in.partial_records(), length - 4);
  ASSERT_NO_FATAL_FAILURE(pair.expect_taken(5, 120));
}

// ---- what a stranger may write ----

TEST(a_corrupt_record, is_named_so_for_lengths_and_places_that_no_sender_writes) {
  struct Damage {
    const char* what;
    void (*damage)(Record&);
  };
  constexpr std::array damages{
      Damage{"no length", [](Record& record) { record.header().length_words = 0; }},
      Damage{"shorter than a header",
             [](Record& record) { record.header().length_words = record_length_min / 8 - 1; }},
      Damage{"longer than four lines",
             [](Record& record) { record.header().length_words = record_length_max / 8 + 1; }},
      Damage{"payload larger than the ring",
             [](Record& record) { record.header().total_bytes = ~std::uint64_t{0}; }},
      Damage{"payload larger than half the ring",
             [](Record& record) { record.header().total_bytes = 33 * unit_bytes; }},
      Damage{"payload where none is due", [](Record& record) { record.set_place(1); }}};
  for (const Damage& damage : damages) {
    RingPair pair{ordered()};
    ASSERT_EQ(pair.send_payload(1, 200), Out::Sent::posted);
    damage.damage(*reinterpret_cast<Record*>(pair.slot.memory));
    EXPECT_EQ(pair.take(), Take::corrupt) << damage.what;
  }
}

TEST(a_corrupt_record, is_one_whose_payload_begins_where_the_receiver_still_holds_another) {
  RingPair pair{ordered()};
  ASSERT_EQ(pair.send_payload(1, 200), Out::Sent::posted);
  ASSERT_EQ(pair.send_payload(2, 200), Out::Sent::posted);
  ASSERT_EQ(pair.take(), Take::taken);
  reinterpret_cast<Record*>(pair.slot.memory + line_bytes)->set_place(0);
  EXPECT_EQ(pair.take(), Take::corrupt);
}

TEST(a_corrupt_record, that_came_with_a_payload_is_of_a_kind_that_has_one) {
  for (const RecordKind kind : {RecordKind::eager_inline, RecordKind::finished, RecordKind::pad}) {
    RingPair pair{told_by_immediates()};
    ASSERT_EQ(pair.send_payload(1, 200), Out::Sent::posted);
    auto& record = *reinterpret_cast<Record*>(pair.slot.memory + RingLayout::payload_offset);
    ASSERT_EQ(record.header().kind, RecordKind::eager_payload);
    record.header().kind = kind;
    EXPECT_EQ(pair.take(), Take::corrupt) << static_cast<int>(kind);
  }
}

TEST(a_corrupt_record, of_more_lines_than_are_left_does_not_read_past_the_ring) {
  RingPair pair{ordered()};
  constexpr std::uint64_t last = record_ring_lines - 1;
  for (std::uint64_t key = 0; key < last; ++key) {
    ASSERT_EQ(pair.send_inline(key, 8), Out::Sent::posted);
    ASSERT_NO_FATAL_FAILURE(pair.expect_taken(key, 8));
    pair.return_credits();
  }
  ASSERT_EQ(pair.send_inline(last, 8), Out::Sent::posted);
  reinterpret_cast<Record*>(pair.slot.memory + last * line_bytes)->header().length_words =
      2 * line_bytes / 8;
  EXPECT_EQ(pair.take(), Take::corrupt);
}

TEST(random_bytes, are_taken_or_named_corrupt_and_never_read_out_of_bounds) {
  constexpr int iterations = 100'000;
  std::mt19937_64 random{4};
  int taken = 0;
  int corrupt = 0;
  std::optional<RingPair> pair;
  const std::size_t payload_bytes = RingPair::layout.payload_ring_units * unit_bytes;
  std::uint32_t first_message = 0;
  std::uint32_t message_number = 0;
  for (int i = 0; i < iterations; ++i) {
    if (!pair) {
      first_message = static_cast<std::uint32_t>(random());
      message_number = first_message;
      pair.emplace(ordered(), first_message);
    }
    // Random bytes behind a due flag; half of them with fields that a careless receiver would
    // believe.
    const std::uint64_t head = pair->in.consumed().lines % record_ring_lines;
    std::byte* const line = pair->slot.memory + head * line_bytes;
    const std::size_t bytes =
        std::min<std::size_t>(record_lines_max, record_ring_lines - head) * line_bytes;
    for (std::size_t at = 0; at < bytes; at += 8) {
      const std::uint64_t word = random();
      std::memcpy(line + at, &word, sizeof word);
    }
    RecordHeader header;
    std::memcpy(&header, line, sizeof header);
    header.sequence = sequence_word(message_number);
    if (random() % 2 == 0) {
      header.length_words = static_cast<std::uint8_t>(random() % (record_length_max / 8 + 2));
      header.kind = static_cast<RecordKind>(random() % (record_kind_max + 2));
      header.total_bytes = random() % (payload_bytes + 2);
    }
    std::memcpy(line, &header, record_body_offset);
    if (random() % 2 == 0) {
      const auto place =
          static_cast<std::uint32_t>(pair->in.next_unit() % RingPair::layout.payload_ring_units);
      std::memcpy(line + record_body_offset, &place, sizeof place);
    }
    switch (pair->take()) {
      case Take::nothing: FAIL() << "a due flag was not seen";
      case Take::corrupt:
        ++corrupt;
        pair.reset();
        break;
      case Take::taken: {
        ++taken;
        ++message_number;
        pair->in.release(pair->message);
        const TakenMessage& message = pair->message;
        ASSERT_GE(message.record.length(), record_length_min);
        ASSERT_LE(message.record.length(), record_length_max);
        if (message.payload == nullptr) break;
        const auto offset = static_cast<std::size_t>(message.payload - pair->slot.memory) -
                            RingLayout::payload_offset;
        ASSERT_LE(offset, payload_bytes);
        ASSERT_LE(message.record.header().total_bytes, payload_bytes - offset);
        break;
      }
    }
  }
  EXPECT_GT(taken, iterations / 20);
  EXPECT_GT(corrupt, iterations / 20);
}

}  // namespace
