// SPDX-License-Identifier: MIT
// How long a rank looks for a message, the states of operations, and the whole of messaging with
// one rank.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <optional>
#include <random>
#include <vector>

#include "messaging/matching.hpp"
#include "messaging/patience.hpp"
#include "messaging/rings/send_ring.hpp"
#include "support/heap.hpp"
#include "support/lone_rank.hpp"

namespace {

using namespace qpmesh;
using namespace qpmesh::messaging;

// ---- how long to look ----

TEST(patience, looks_for_each_message_of_a_peer_that_answers_at_once) {
  Patience patience;
  int waits = 0;
  while (patience.spins() == 0) ASSERT_LT(++waits, 100) << "it tries now and then";
  patience.note(true);
  for (int i = 0; i < 100; ++i) {
    EXPECT_GT(patience.spins(), 0);
    patience.note(i % 4 == 0);  // one that comes late is no reason to give up
  }
}

TEST(patience, is_soon_lost_with_a_peer_that_needs_the_core) {
  Patience patience;
  patience.note(true);
  int looked = 0;
  for (int i = 0; i < 160; ++i) {
    if (patience.spins() == 0) continue;
    ++looked;
    patience.note(false);
  }
  EXPECT_LE(looked, 4 + 160 / 16);
}

// ---- the states of operations ----

// Every state is reached from idle by the table's edges, and none leads back but by the end.
template <class State, std::size_t count>
void expect_sound(const std::array<Edge<State>, count>& edges, State last) {
  std::vector<bool> reached(static_cast<std::size_t>(last) + 1);
  reached[0] = true;  // idle
  for (std::size_t round = 0; round < reached.size(); ++round) {
    for (const auto& [from, to] : edges) {
      EXPECT_NE(from, to);
      EXPECT_NE(to, State::idle) << "that is always allowed";
      EXPECT_FALSE(is_closing(from)) << "what has failed only ends";
      if (reached[static_cast<std::size_t>(from)]) reached[static_cast<std::size_t>(to)] = true;
    }
  }
  for (std::size_t state = 0; state < reached.size(); ++state) EXPECT_TRUE(reached[state]) << state;
}

TEST(states, of_sends_and_receives_are_all_reached_and_end) {
  expect_sound(send_edges, SendState::revoking);
  expect_sound(receive_edges, ReceiveState::revoking);
  EXPECT_FALSE(is_edge(SendState::written, SendState::writing));
  EXPECT_FALSE(is_edge(ReceiveState::revoking, ReceiveState::open));
  EXPECT_TRUE(is_edge(ReceiveState::revoking, ReceiveState::idle));
}

// ---- messages of one rank to itself ----

// A record as this rank's ring would carry it next, past the sender's checks.
void forge(test::LoneRank& rank, std::uint32_t message, std::uint32_t line, RecordHeader header,
           const RendezvousBody& body) {
  Record record;
  std::memset(record.bytes, 0, sizeof record.bytes);
  header.sequence = sequence_word(message);
  header.length_words = record_length(sizeof body) / 8;
  std::memcpy(record.bytes, &header, record_body_offset);
  std::memcpy(record.body(), &body, sizeof body);
  std::memcpy(rank.slot + line * line_bytes, record.bytes, record.length());
}

TEST(an_answer_to_a_rendezvous,
     that_names_memory_which_is_not_the_peers_ends_the_link_and_writes_nothing) {
  test::LoneRank rank;
  std::vector<std::byte> large(4096, std::byte{1});
  SendOperation send = rank.group().send_operation(0, large);
  rank.messaging.start(send);
  ASSERT_EQ(send.state, SendState::offered);
  const auto offered_lines = record_lines(record_length(sizeof(RendezvousBody)));
  forge(rank, 1, offered_lines,
        {.sequence = 0,
         .checksum = 0,
         .kind = RecordKind::clear_to_send,
         .flags = flag_zero_copy,
         .length_words = 0,
         .inline_bytes = 0,
         .consumed = 0,
         .communicator = test::LoneRank::communicator,
         .key = 0,
         .total_bytes = 0,
         .signature = 0},
        {.sender_operation = send.number,
         .receiver_operation = 1,
         .region = 0,
         .offset = rank.arena.bytes() - 64});
  rank.steps();
  EXPECT_FALSE(send.done);
  ASSERT_EQ(rank.failures.size(), 1U);
  EXPECT_EQ(rank.failures[0].code, ErrorCode::corrupt);
  EXPECT_EQ(rank.messaging.counters().zero_copy_sends, 0U);
}

TEST(an_eager_send, looks_at_the_credits_that_came_before_it_falls_back_to_rendezvous) {
  test::LoneRank rank;
  const std::vector<std::byte> data(1024, std::byte{2});  // the ring takes four of them
  std::vector<std::byte> target(data.size());
  std::array<ReceiveOperation, 5> receives;
  for (ReceiveOperation& receive : receives) {
    receive = rank.group().receive_operation(0, target);
    rank.messaging.start(receive);
  }
  const auto send = [&] {
    SendOperation operation = rank.group().send_operation(0, data);
    rank.messaging.start(operation);
    ASSERT_TRUE(operation.done) << "it waits for its receive";
  };
  for (int i = 0; i < 3; ++i) send();
  EXPECT_TRUE(rank.messaging.poll());  // takes them, and returns their credits through the cell
                                       // alone: no record carries them
  EXPECT_EQ(rank.messaging.counters().credit_writes, 1U);
  for (int i = 0; i < 2; ++i) ASSERT_NO_FATAL_FAILURE(send());
  EXPECT_EQ(rank.messaging.counters().degraded, 0U);
  rank.steps();
  for (const ReceiveOperation& receive : receives) EXPECT_TRUE(receive.done);
  EXPECT_EQ(target, data);
}

TEST(an_eager_send, behind_a_long_one_whose_segments_fill_the_ring_waits_for_them_alone) {
  test::LoneRank rank;
  const std::vector<std::byte> long_data(40 * 512, std::byte{3});  // in segments of 512
  const std::vector<std::byte> data(1024, std::byte{2});
  std::vector<std::byte> target(long_data.size());
  SendOperation long_send = rank.group().send_operation(0, long_data);
  rank.messaging.start(long_send);
  ReceiveOperation receive = rank.group().receive_operation(0, target);
  rank.messaging.start(receive);
  for (int polls = 0; !long_send.done; ++polls) {
    ASSERT_LT(polls, 10);
    rank.messaging.poll();
  }
  ASSERT_FALSE(receive.done) << "the ring is not full: nothing is tested";
  SendOperation send = rank.group().send_operation(0, data);
  rank.messaging.start(send);
  EXPECT_EQ(send.state, SendState::queued);
  rank.steps();
  EXPECT_TRUE(receive.done);
  EXPECT_TRUE(send.done) << "it waits for its receive";
  EXPECT_EQ(rank.messaging.counters().degraded, 0U);
  ReceiveOperation last = rank.group().receive_operation(0, target);
  rank.messaging.start(last);
  EXPECT_TRUE(last.done);
}

TEST(an_eager_send, behind_segments_that_come_too_late_for_their_receive_waits_for_no_receive) {
  test::LoneRank rank;
  collectives::Group::Members others = rank.members;
  others.communicator = test::LoneRank::communicator + 1;
  const collectives::Group other{others, 0, 0};
  const std::vector<std::byte> long_data(3 * 512, std::byte{3});  // in segments of 512
  const std::vector<std::byte> data(1024, std::byte{2});
  std::vector<std::byte> target(long_data.size());
  const auto start = [&](SendOperation& send, std::size_t bytes) {
    send = other.send_operation(0, std::span{data}.first(bytes));
    rank.messaging.start(send);
  };
  // So many that a poll takes them and one more.
  std::array<std::array<SendOperation, 31>, 2> short_sends;
  std::array<SendOperation, 3> sends;
  SendOperation long_send = rank.group().send_operation(0, long_data);
  rank.messaging.start(long_send);
  ReceiveOperation receive = rank.group().receive_operation(0, target);
  rank.messaging.start(receive);
  for (SendOperation& send : short_sends[0]) start(send, 8);
  rank.messaging.poll();  // takes the offer, and leaves the answer
  for (SendOperation& send : short_sends[1]) start(send, 8);
  for (SendOperation& send : std::span{sends}.first(2)) start(send, data.size());
  rank.messaging.poll();  // takes the answer, and leaves the segments
  ASSERT_TRUE(long_send.done);
  ASSERT_EQ(receive.moved_bytes, 0U) << "no segment is late: nothing is tested";
  rank.communicator_failed(test::LoneRank::communicator, {.code = ErrorCode::no_resource});
  ASSERT_TRUE(receive.done);
  start(sends[2], data.size());
  ASSERT_EQ(sends[2].state, SendState::queued);
  rank.steps();
  EXPECT_TRUE(sends[2].done) << "it waits for its receive";
  EXPECT_EQ(rank.messaging.counters().stale_answers, 3U);
  EXPECT_EQ(rank.messaging.counters().degraded, 0U);
}

TEST(an_eager_send, waits_for_no_receive_though_one_message_stays_in_the_ring) {
  test::LoneRank rank;
  const std::vector<std::byte> data(1024, std::byte{2});
  std::vector<std::byte> target(data.size());
  const auto send = [&](const collectives::Group& group, std::size_t bytes) {
    SendOperation operation = group.send_operation(0, std::span{data}.first(bytes));
    rank.messaging.start(operation);
    ASSERT_TRUE(operation.done) << "it waits for its receive";
    rank.steps();
  };
  const auto receive = [&](const collectives::Group& group, std::size_t bytes) {
    ReceiveOperation operation = group.receive_operation(0, std::span{target}.first(bytes));
    rank.messaging.start(operation);
    ASSERT_TRUE(operation.done);
    EXPECT_EQ(target[bytes - 1], data[bytes - 1]);
    rank.steps();
  };
  const collectives::Group later{rank.members, 1, 0};
  // Others are received as they come, or all lie there before the first one is.
  ASSERT_NO_FATAL_FAILURE(send(later, inline_bytes_max + 1));
  for (int i = 0; i < 20; ++i) {  // five rings
    ASSERT_NO_FATAL_FAILURE(send(rank.group(), data.size()));
    ASSERT_NO_FATAL_FAILURE(receive(rank.group(), data.size()));
  }
  receive(later, inline_bytes_max + 1);
  for (int round = 0; round < 5; ++round) {
    ASSERT_NO_FATAL_FAILURE(send(later, inline_bytes_max + 1));
    for (int i = 0; i < 2; ++i) ASSERT_NO_FATAL_FAILURE(send(rank.group(), data.size()));
    for (int i = 0; i < 2; ++i) ASSERT_NO_FATAL_FAILURE(receive(rank.group(), data.size()));
  }
  for (int round = 0; round < 5; ++round) receive(later, inline_bytes_max + 1);
  EXPECT_EQ(rank.messaging.counters().degraded, 0U);
}

TEST(a_link_that_fails_where_memory_is_missing, is_told_all_the_same_and_no_send_ends_twice) {
  bool fired = true;
  for (std::uint64_t index = 0; fired; ++index) {
    SCOPED_TRACE(index);
    test::LoneRank rank;
    const std::uint64_t value = 1;
    std::array<SendOperation, record_ring_lines - SendRing<ProcessAtomics>::reserved_lines> sends;
    for (SendOperation& send : sends) {
      send = rank.group().send_operation(0, std::as_bytes(std::span{&value, 1}));
      rank.messaging.start(send);
      ASSERT_TRUE(send.done);
    }
    const std::vector<std::byte> data(2048);
    progress::Join join{.outstanding = 2};
    SendOperation large = rank.group().send_operation(0, data);
    large.join = &join;
    rank.messaging.start(large);
    ASSERT_EQ(large.state, SendState::queued);
    for (int poll = 0; poll < 2; ++poll)
      rank.messaging.poll();  // half of the ring is free, and the send may try again
    ASSERT_EQ(large.state, SendState::queued);
    rank.connection->tear_down();
    {
      const test::FailingAllocation failing{index};
      EXPECT_NO_THROW(rank.messaging.flush());
      fired = test::FailingAllocation::fired();
    }
    rank.messaging.poll();
    ASSERT_EQ(rank.failures.size(), 1U);
    EXPECT_EQ(rank.failures[0].code, ErrorCode::link_failed);
    EXPECT_EQ(rank.failures[0].peer, 0);
    ASSERT_FALSE(large.done);
    rank.communicator_failed(test::LoneRank::communicator, {.code = ErrorCode::no_resource});
    EXPECT_TRUE(large.done);
    EXPECT_EQ(large.failure, rank.failure.get());
    EXPECT_EQ(join.outstanding, 1);
  }
}

// The whole of messaging on random records: receives wait, a rendezvous is open in each direction,
// and nothing may be touched that the record does not rightly name (the address sanitizer watches
// the buffers).
TEST(random_records, end_the_link_with_a_name_or_are_harmless) {
  constexpr int worlds = 300;
  std::mt19937_64 random{5};
  const auto below = [&](std::uint64_t bound) { return random() % bound; };
  int failed = 0;
  int survived = 0;
  for (int world = 0; world < worlds; ++world) {
    test::LoneRank rank;
    std::vector<std::byte> large(4096);
    SendOperation send = rank.group().send_operation(0, large);
    rank.messaging.start(send);
    std::array<std::vector<std::byte>, 16> buffers;
    std::array<ReceiveOperation, 16> receives;
    for (std::size_t i = 0; i < receives.size(); ++i) {
      buffers[i].resize(below(3000));
      receives[i].communicator = test::LoneRank::communicator;
      receives[i].key = tag_key(1);
      receives[i].source = any_peer;
      receives[i].data = buffers[i].data();
      receives[i].capacity_bytes = buffers[i].size();
      rank.messaging.start(receives[i]);
    }
    rank.engine.step();
    // A second reader of the same memory knows where the next record is due.
    std::uint64_t lines = 2;
    std::uint32_t message = 1;
    PayloadCursor cursor{test::LoneRank::layout.payload_ring_units};
    for (std::uint64_t left = 1 + below(20); left > 0 && rank.failures.empty(); --left) {
      if (lines % record_ring_lines > record_ring_lines - record_lines_max) break;
      Record record;
      for (std::size_t at = 0; at < sizeof record.bytes; at += 8) {
        const std::uint64_t word = random();
        std::memcpy(record.bytes + at, &word, sizeof word);
      }
      RendezvousBody body{.sender_operation = send.number,
                          .receiver_operation = static_cast<std::uint32_t>(below(3)) << 16 | 1,
                          .region = static_cast<std::uint32_t>(below(2)),
                          .offset = below(2) == 0 ? random() : below(1 << 20)};
      RecordHeader& header = record.header();
      header.sequence = sequence_word(message++);
      header.kind = static_cast<RecordKind>(1 + below(record_kind_max));
      header.communicator = test::LoneRank::communicator;
      header.key = tag_key(static_cast<int>(below(2)));
      header.total_bytes = below(16) == 0 ? random() : below(2048);
      std::optional<PayloadPlace> payload_place;
      if ((header.kind == RecordKind::eager_payload || header.kind == RecordKind::segment) &&
          header.total_bytes <= 2048) {
        const PayloadCursor::Place place = cursor.peek(units_for(header.total_bytes));
        payload_place =
            below(16) == 0 ? static_cast<std::uint32_t>(random()) : cursor.index(place.start);
        cursor.advance(place);
      }
      std::memcpy(record.body(), &body, sizeof body);
      if (payload_place) {
        record.set_place(*payload_place);
        std::memcpy(record.body() + sizeof(PayloadPlace), &body.receiver_operation,
                    sizeof body.receiver_operation);
      }
      const std::size_t body_bytes =
          header.kind == RecordKind::eager_inline ? below(inline_bytes_max + 1) : sizeof body;
      header.length_words = static_cast<std::uint8_t>(record_length(body_bytes) / 8);
      if (header.kind == RecordKind::eager_inline && below(8) != 0) {
        header.total_bytes = body_bytes;
        header.inline_bytes = static_cast<std::uint8_t>(body_bytes);
      }
      std::memcpy(rank.slot + lines % record_ring_lines * line_bytes, record.bytes,
                  record.length());
      lines += record_lines(record.length());
      rank.engine.step();
    }
    for (const ErrorDetail& failure : rank.failures) {
      EXPECT_TRUE(failure.code == ErrorCode::corrupt || failure.code == ErrorCode::no_resource)
          << failure.cause;
      EXPECT_FALSE(failure.cause.empty());
    }
    ++(rank.failures.empty() ? survived : failed);
  }
  EXPECT_GT(failed, worlds / 20);
  EXPECT_GT(survived, 0);
}

}  // namespace
