// SPDX-License-Identifier: MIT
// Counts of a node's operations over longer times than low halves of them tell. What the words say
// in every interleaving is tests/explore's.
#include "collectives/node/words.hpp"

#include "base/bytes.hpp"
#include "collectives/node/staging.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <span>

namespace {

using namespace qpmesh;
using namespace qpmesh::collectives;
using Words = NodeWords<qpmesh::base::ProcessAtomics>;
using Own = OwnNodeWords<qpmesh::base::ProcessAtomics>;
using Member = MemberNodeWords<qpmesh::base::ProcessAtomics>;

constexpr std::uint64_t half_turn = std::uint64_t{1} << 31;

class NodeCounts : public testing::TestWithParam<std::uint64_t> {};

TEST_P(NodeCounts, wait_for_a_member_that_was_not_looked_at_for_so_many_operations) {
  Words words{};
  Member member{words};
  const std::uint64_t number = GetParam();
  words.done = static_cast<std::uint32_t>(number - 3);
  EXPECT_FALSE(member.is_done(number - 2, number));
  EXPECT_TRUE(member.is_done(number - 3, number));
  words.done = static_cast<std::uint32_t>(number - 2);
  EXPECT_TRUE(member.is_done(number - 2, number));
}

TEST_P(NodeCounts, do_not_wait_for_what_was_over_so_many_operations_ago) {
  Words words{};
  Member member{words};
  words.done = static_cast<std::uint32_t>(GetParam());
  EXPECT_TRUE(member.is_done(2, GetParam()));
}

TEST_P(NodeCounts, are_learnt_whole_with_a_stage_of_a_member_that_is_ahead_or_behind) {
  const std::uint64_t number = GetParam();
  for (const std::uint64_t done : {number - 2, number, number + 2}) {
    Words words{};
    Member member{words};
    auto& slot = words.slot(number, SlotBank::ahead);
    slot.stage = node_stage(number, 1);
    slot.done = static_cast<std::uint32_t>(done);
    std::uint64_t call = 0;
    EXPECT_TRUE(member.has_come(slot, node_stage(number, 1), number, call));
    EXPECT_EQ(member.known_done(), done);
  }
}

TEST(node_slots, of_a_turn_are_all_of_a_bank_and_no_slot_is_in_both) {
  std::array<int, 2 * std::size_t{node_slot_count}> used{};
  for (const SlotBank bank : {SlotBank::ahead, SlotBank::together}) {
    for (std::uint64_t number = 0; number < node_slot_count; ++number)
      ++used.at(Words::slot_index(number, bank));
  }
  EXPECT_THAT(used, testing::Each(1));
}

TEST(node_slots, lie_at_equal_distances_where_members_run_ahead_and_never_where_they_exchange) {
  const auto distance = [](std::uint64_t number, SlotBank bank) {
    return std::int64_t{Words::slot_index(number + 1, bank)} -
           std::int64_t{Words::slot_index(number, bank)};
  };
  for (std::uint64_t number = 0; number < 2 * std::uint64_t{node_slot_count}; ++number) {
    const auto next = number + 1;
    EXPECT_NE(distance(number, SlotBank::together), distance(next, SlotBank::together)) << number;
    if (next % node_slot_count != 0) {
      EXPECT_EQ(distance(number, SlotBank::ahead), 1) << number;
    }
  }
}

TEST(node_slots, that_operations_used_are_as_new_but_for_data_when_the_slab_serves_others) {
  for (const std::uint64_t operation_count : {std::uint64_t{3}, std::uint64_t{69}}) {
    Words words{};
    words.done = 1;
    words.revocations.word = 1;
    const auto bytes_of = [](auto& slot) {
      return std::span{reinterpret_cast<std::byte*>(&slot), sizeof slot};
    };
    for (std::uint64_t number = 0; number < operation_count; ++number) {
      for (const SlotBank bank : {SlotBank::ahead, SlotBank::together})
        std::ranges::fill(bytes_of(words.slot(number, bank)), std::byte{0xff});
    }
    words.clear(operation_count);
    EXPECT_EQ(words.done, 0U);
    EXPECT_EQ(words.revocations.word, 0U);
    for (auto& slot : words.slots) {
      std::ranges::fill(slot.data, std::byte{0});
      EXPECT_THAT(bytes_of(slot), testing::Each(std::byte{0}));
    }
  }
}

TEST_P(NodeCounts, of_another_turn_are_no_stage_that_is_awaited) {
  const std::uint64_t number = GetParam();
  Words words{};
  Member member{words};
  auto& slot = words.slot(number, SlotBank::ahead);
  slot.stage = node_stage(number - 2 * half_turn, 1);
  std::uint64_t call = 0;
  EXPECT_FALSE(member.has_come(slot, node_stage(number, 1), number, call));
}

INSTANTIATE_TEST_SUITE_P(Near, NodeCounts,
                         testing::Values(half_turn - 1, half_turn + 5, 2 * half_turn - 1,
                                         2 * half_turn, 2 * half_turn + 1, 3 * half_turn + 5,
                                         4 * half_turn + 2));

TEST(node_counts, go_on_while_operations_end_in_another_order_than_they_began) {
  Words words{};
  Own own{words};
  own.end(1);
  own.end(2);
  EXPECT_EQ(own.done(), 0U);
  own.end(0);
  EXPECT_EQ(own.done(), 3U);
  EXPECT_EQ(words.done, 3U);
}

TEST(staging, gives_sixteen_small_operations_parts_that_none_of_them_waits_for) {
  StagingRing ring;
  for (std::uint64_t number = 0; number < 100; ++number) {
    const auto part = ring.take(number, 8 << 10);
    EXPECT_LE(part.done_before, number < 16 ? 0 : number - 15);
  }
}

TEST(staging, reaches_further_the_longer_it_serves_where_that_is_wanted) {
  StagingRing ring;
  StagingRing small{0};
  std::size_t end = 0;
  std::size_t small_end = 0;
  for (std::uint64_t number = 0; number < 1'000; ++number) {
    end = std::max(end, ring.take(number, 32 << 10).begin + (32 << 10));
    small_end = std::max(small_end, small.take(number, 32 << 10).begin + (32 << 10));
    if (number < 8) {
      EXPECT_LE(end, StagingRing::round_bytes(32 << 10));
    }
    ASSERT_LE(end, std::max(ring.reach_bytes(), StagingRing::round_bytes(32 << 10)));
  }
  EXPECT_EQ(end, node_staging_bytes);
  EXPECT_EQ(small_end, StagingRing::round_bytes(32 << 10));
}

TEST(staging, reaches_as_far_as_it_ever_will_when_it_is_asked_to) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{16} << 10, node_staging_bytes}) {
    StagingRing ring;
    StagingRing small{0};
    ring.use_all();
    small.use_all();
    std::size_t parts = 0;
    std::size_t small_parts = 0;
    for (std::uint64_t number = 0; number < 1'000; ++number) {
      parts += ring.take(number, bytes).done_before == 0 ? 1U : 0U;
      small_parts += small.take(number, bytes).done_before == 0 ? 1U : 0U;
    }
    EXPECT_EQ(parts, node_staging_bytes / base::round_up(bytes, node_granule_bytes));
    EXPECT_EQ(parts, ring.parts_of(bytes));
    EXPECT_LE(small_parts, parts);
  }
  EXPECT_EQ(StagingRing{0}.parts_of(1), 16U);
  EXPECT_EQ(StagingRing{0}.parts_of(64 << 10), 4U);
}

TEST(staging, lets_an_operation_wait_for_all_that_had_a_part_of_what_it_takes) {
  StagingRing ring;
  ring.take(0, 100);
  ring.take(1, node_granule_bytes + 1);
  EXPECT_EQ(ring.take(2, node_staging_bytes).done_before, 2U);
  const auto next = ring.take(3, 100);
  EXPECT_EQ(next.begin, 0U);
  EXPECT_EQ(next.done_before, 3U);
}

// Whatever was taken before: parts that are in use together do not overlap.
TEST(staging, is_never_in_two_operations_hands) {
  StagingRing ring;
  std::array<std::uint64_t, node_staging_bytes / 64> users{};
  std::uint64_t random = 1;
  for (std::uint64_t number = 1; number < 20'000; ++number) {
    random = random * 6364136223846793005U + 1442695040888963407U;
    const std::size_t bytes_max = node_staging_bytes >> (random >> 60);
    const std::size_t bytes = base::round_up(1 + (random >> 33) % bytes_max, 64);
    const std::size_t expected_begin = ring.next_begin(bytes);
    const auto part = ring.take(number, bytes);
    ASSERT_EQ(part.begin, expected_begin);
    ASSERT_LE(part.begin + bytes, node_staging_bytes);
    for (std::size_t line = part.begin / 64; line < (part.begin + bytes) / 64; ++line) {
      ASSERT_TRUE(users[line] == 0 || users[line] < part.done_before);
      users[line] = number;
    }
  }
}

}  // namespace
