// SPDX-License-Identifier: MIT
// What rings are made of: places, credits, records and immediates.
#include "messaging/rings/record.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <random>
#include <vector>

#include "messaging/rings/credits.hpp"

namespace {

using namespace qpmesh::messaging;

// ---- places in the payload ring ----

TEST(payload_cursor, skips_to_the_start_what_does_not_fit_before_the_end) {
  constexpr std::uint32_t ring = 16;
  for (std::uint32_t offset = 0; offset < ring; ++offset) {
    for (std::uint32_t units = 0; units <= ring / 2; ++units) {
      PayloadCursor cursor{ring};
      for (std::uint32_t i = 0; i < offset + ring; ++i)
        cursor.advance(cursor.peek(1));  // a ring further: indices have wrapped
      const std::uint64_t before = cursor.next();
      ASSERT_EQ(before, offset + ring);
      const PayloadCursor::Place place = cursor.peek(units);
      const bool fits = offset + units <= ring;
      EXPECT_EQ(cursor.index(place.start), (fits ? offset : 0) & (ring - 1));
      EXPECT_EQ(place.start - before, fits ? 0 : ring - offset);
      EXPECT_EQ(place.end - place.start, units);
      EXPECT_LE(cursor.index(place.start) + units, ring) << "contiguous";
      EXPECT_EQ(cursor.next(), before) << "a look changes nothing";
      cursor.advance(place);
      EXPECT_EQ(cursor.next(), place.end);
    }
  }
}

TEST(payload_cursor, gives_both_ends_the_same_places_from_the_lengths_alone) {
  constexpr std::uint32_t ring = 64;
  std::mt19937 random{1};
  PayloadCursor sender{ring};
  PayloadCursor receiver{ring};
  for (int i = 0; i < 10'000; ++i) {
    const auto units = static_cast<std::uint32_t>(random() % (ring / 2 + 1));
    const PayloadCursor::Place sent = sender.peek(units);
    const PayloadCursor::Place received = receiver.peek(units);
    ASSERT_EQ(sent.start, received.start);
    ASSERT_EQ(sent.end, received.end);
    sender.advance(sent);
    receiver.advance(received);
  }
}

// ---- credits ----

template <int bits>
void expect_the_largest_possible_count() {
  CreditCounter counter;
  counter.send(40);
  counter.take<bits>(10);
  EXPECT_EQ(counter.in_flight(), 30U);
  counter.take<bits>(10);  // repeated
  EXPECT_EQ(counter.in_flight(), 30U);
  counter.take<bits>(3);  // stale
  EXPECT_EQ(counter.in_flight(), 30U);
  counter.take<bits>(41);  // more than was ever sent
  counter.take<bits>(~std::uint64_t{5});
  EXPECT_EQ(counter.in_flight(), 30U);
  counter.take<bits>(40);
  EXPECT_EQ(counter.in_flight(), 0U);
  EXPECT_EQ(counter.returned(), 40U);
  EXPECT_EQ(counter.sent(), 40U);
}

TEST(credit_counter, takes_true_counts_and_ignores_repeated_stale_and_impossible_ones) {
  expect_the_largest_possible_count<30>();
  expect_the_largest_possible_count<32>();
  expect_the_largest_possible_count<64>();
}

// In flight as much as may be, across many turns of the low bits, each count up to a window old.
template <int bits>
void take_counts_of() {
  constexpr std::uint64_t window = CreditCounter::sent_unread_max;
  std::mt19937_64 random{2};
  CreditCounter counter;
  std::uint64_t consumed = 0;  // the receiver's truth
  std::deque<std::uint64_t> history{0};
  for (int i = 0; i < 50'000; ++i) {
    counter.send(random() % (window - counter.in_flight() + 1));
    consumed += random() % (counter.sent() - consumed + 1);
    history.push_back(consumed);
    if (history.size() > 3) history.pop_front();
    const std::uint64_t before = counter.returned();
    const std::uint64_t told = history[random() % history.size()];
    if (counter.sent() - told >= 2 * window) continue;  // must_read() keeps it from being so old
    counter.take<bits>(told & (~std::uint64_t{0} >> (64 - bits)));
    ASSERT_EQ(counter.returned(), std::max(before, told));
  }
  EXPECT_GT(counter.returned(), 1000 * window) << "wrapped often";
}

TEST(credit_counter, takes_the_largest_true_count_wherever_its_low_bits_wrap) {
  take_counts_of<30>();
  take_counts_of<32>();
  take_counts_of<64>();
}

TEST(credit_counter, says_when_half_a_turn_was_sent_while_the_peers_counts_lay_unread) {
  CreditCounter counter;
  counter.send(CreditCounter::sent_unread_max - 1);
  EXPECT_FALSE(counter.must_read());
  counter.send(1);
  EXPECT_TRUE(counter.must_read());
  counter.note_all_read();
  EXPECT_FALSE(counter.must_read());
}

// ---- the record ----

TEST(record, lies_as_documented) {
  EXPECT_EQ(offsetof(RecordHeader, sequence), 0U);
  EXPECT_EQ(offsetof(RecordHeader, checksum), 4U);
  EXPECT_EQ(offsetof(RecordHeader, kind), 8U);
  EXPECT_EQ(offsetof(RecordHeader, flags), 9U);
  EXPECT_EQ(offsetof(RecordHeader, length_words), 10U);
  EXPECT_EQ(offsetof(RecordHeader, inline_bytes), 11U);
  EXPECT_EQ(offsetof(RecordHeader, consumed), 12U);
  EXPECT_EQ(offsetof(RecordHeader, communicator), 16U);
  EXPECT_EQ(offsetof(RecordHeader, key), 24U);
  EXPECT_EQ(offsetof(RecordHeader, total_bytes), 32U);
  EXPECT_EQ(offsetof(RecordHeader, signature), 40U);
  EXPECT_EQ(record_body_offset, 44U);
  EXPECT_EQ(inline_bytes_max, 168U);
  EXPECT_EQ(record_length(0), 48U);
  EXPECT_EQ(record_length(1), 56U);
  EXPECT_EQ(record_length(inline_bytes_max), 216U);
  EXPECT_EQ(record_lines(64), 1U);
  EXPECT_EQ(record_lines(72), 2U);
}

TEST(record, sequence_words_are_never_zero_and_differ_within_a_ring_across_the_wrap) {
  EXPECT_EQ(sequence_word(0), 0x80000000U);
  EXPECT_EQ(sequence_word(0x7fffffffU), 0xffffffffU);
  EXPECT_EQ(sequence_word(0x80000000U), 0x80000000U);
  for (const std::uint32_t start : {0x7fffffc0U, 0xffffffc0U}) {
    for (std::uint32_t i = 0; i < 2 * record_ring_lines; ++i) {
      EXPECT_NE(sequence_word(start + i), 0U);
      EXPECT_NE(sequence_word(start + i), sequence_word(start + i + record_ring_lines));
    }
  }
}

TEST(direction_seeds, tell_the_directions_of_a_pair_and_two_jobs_apart) {
  EXPECT_NE(direction_seed(1, 2, 3), direction_seed(1, 3, 2));
  EXPECT_NE(direction_seed(1, 2, 3), direction_seed(2, 2, 3));
  EXPECT_EQ(direction_seed(1, 2, 3), direction_seed(1, 2, 3));
}

TEST(immediates, carry_kind_and_content) {
  for (const ImmediateKind kind : {ImmediateKind::record, ImmediateKind::payload,
                                   ImmediateKind::lines, ImmediateKind::units}) {
    for (const std::uint32_t content : {0U, 1U, 63U, 0x00ff'ffffU, 0x3fff'ffffU}) {
      const Immediate back = decode_immediate(encode({kind, content}));
      EXPECT_EQ(back.kind, kind);
      EXPECT_EQ(back.content, content);
    }
  }
}

}  // namespace
