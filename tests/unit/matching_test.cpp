// SPDX-License-Identifier: MIT
// What messaging finds again: operations by number, receives and messages by tag and source.
#include <gtest/gtest.h>

#include <memory>
#include <new>
#include <vector>

#include "messaging/matching.hpp"
#include "messaging/slot_map.hpp"
#include "support/heap.hpp"

namespace {

using namespace qpmesh;
using namespace qpmesh::messaging;

// ---- operations by number ----

TEST(slot_map, finds_what_was_added_and_nothing_once_it_is_gone) {
  SlotMap<int> numbers;
  int first = 1;
  int second = 2;
  const std::uint32_t number = numbers.add(first);
  EXPECT_NE(number, 0U);
  EXPECT_EQ(numbers.find(number), &first);
  numbers.remove(number);
  EXPECT_EQ(numbers.find(number), nullptr);
  const std::uint32_t later = numbers.add(second);
  EXPECT_EQ(later >> 16, number >> 16) << "the slot is used again";
  EXPECT_NE(later, number);
  EXPECT_EQ(numbers.find(number), nullptr) << "a late answer to the first operation";
  EXPECT_EQ(numbers.find(later), &second);
  EXPECT_EQ(numbers.find(later + (1U << 16)), nullptr) << "a slot that never was";
  EXPECT_EQ(numbers.find(0), nullptr);
}

TEST(slot_map, gives_no_number_zero_though_generations_wrap) {
  SlotMap<int> numbers;
  int item = 0;
  std::uint32_t previous = 0;
  for (int i = 0; i < 70'000; ++i) {
    const std::uint32_t number = numbers.add(item);
    ASSERT_NE(number, 0U);
    ASSERT_NE(number, previous);
    numbers.remove(number);
    previous = number;
  }
}

TEST(slot_map, takes_no_memory_to_give_numbers_back) {
  SlotMap<int> numbers;
  int item = 0;
  std::vector<std::uint32_t> given(1000);
  for (std::uint32_t& number : given) number = numbers.add(item);
  const std::uint64_t before = test::heap_allocations();
  for (const std::uint32_t number : given) numbers.remove(number);
  EXPECT_EQ(test::heap_allocations(), before);
}

TEST(slot_map, gives_no_number_where_memory_is_missing) {
  SlotMap<int> numbers;
  int item = 0;
  {
    const test::FailingAllocation failing{0};
    EXPECT_EQ(numbers.add(item), 0U);
    EXPECT_TRUE(test::FailingAllocation::fired());
  }
  EXPECT_EQ(numbers.find(numbers.add(item)), &item);
}

TEST(slot_map, runs_out_at_65536_operations_and_goes_on_when_one_is_gone) {
  SlotMap<int> numbers;
  int item = 0;
  std::uint32_t last = 0;
  for (int i = 0; i < 65'536; ++i) ASSERT_NE(last = numbers.add(item), 0U);
  EXPECT_EQ(numbers.add(item), 0U);
  numbers.remove(last);
  EXPECT_NE(numbers.add(item), 0U);
}

// ---- matching ----

ReceiveOperation receive_of(std::uint64_t communicator, std::uint64_t key, int source,
                            bool any_tag = false) {
  ReceiveOperation receive;
  receive.communicator = communicator;
  receive.key = key;
  receive.source = source;
  receive.any_tag = any_tag;
  return receive;
}
Unexpected& message_in(Matching& matching, std::uint64_t communicator, std::uint64_t key,
                       int source) {
  Unexpected& message = matching.new_message();
  message.envelope = {.communicator = communicator, .key = key, .source = source, .bytes = 0};
  matching.add(message);
  return message;
}

TEST(posted_receives, are_taken_in_the_order_posted_by_the_first_message_that_fits) {
  Matching matching{5};
  ReceiveOperation any = receive_of(1, 0, any_peer, true);
  ReceiveOperation from_two = receive_of(1, tag_key(5), 2);
  ReceiveOperation again_two = receive_of(1, tag_key(5), 2);
  matching.post(from_two);
  matching.post(any);
  matching.post(again_two);
  EXPECT_EQ(matching.take_posted({.communicator = 2, .key = 5, .source = 2}), nullptr)
      << "another communicator";
  EXPECT_EQ(matching.take_posted({.communicator = 1, .key = 5, .source = 3}), &any)
      << "any source, any tag";
  EXPECT_EQ(matching.take_posted({.communicator = 1, .key = 6, .source = 2}), nullptr)
      << "another tag";
  EXPECT_EQ(matching.take_posted({.communicator = 1, .key = 5, .source = 2}), &from_two);
  EXPECT_EQ(matching.take_posted({.communicator = 1, .key = 5, .source = 2}), &again_two);
  EXPECT_EQ(matching.take_posted({.communicator = 1, .key = 5, .source = 2}), nullptr);
}

TEST(posted_receives, of_any_source_keep_their_tag_and_of_any_tag_their_source) {
  Matching matching{5};
  ReceiveOperation tag_five = receive_of(1, tag_key(5), any_peer);
  ReceiveOperation from_four = receive_of(1, 0, 4, true);
  matching.post(tag_five);
  matching.post(from_four);
  EXPECT_EQ(matching.take_posted({.communicator = 1, .key = 6, .source = 3}), nullptr);
  EXPECT_EQ(matching.take_posted({.communicator = 1, .key = 6, .source = 4}), &from_four);
  EXPECT_EQ(matching.take_posted({.communicator = 1, .key = 5, .source = 3}), &tag_five);
}

TEST(posted_receives, of_any_source_and_of_one_are_taken_in_the_order_posted) {
  Matching matching{5};
  ReceiveOperation early = receive_of(1, 5, any_peer);
  ReceiveOperation from_two = receive_of(1, 5, 2);
  ReceiveOperation late = receive_of(1, 0, any_peer, true);
  matching.post(early);
  matching.post(from_two);
  matching.post(late);
  EXPECT_EQ(matching.take_posted({.communicator = 1, .key = 5, .source = 2}), &early);
  EXPECT_EQ(matching.take_posted({.communicator = 1, .key = 5, .source = 2}), &from_two);
  EXPECT_EQ(matching.take_posted({.communicator = 1, .key = 5, .source = 2}), &late);
  matching.post(from_two);
  matching.post(early);
  EXPECT_EQ(matching.take_posted({.communicator = 1, .key = 5, .source = 2}), &from_two);
  EXPECT_EQ(matching.take_posted({.communicator = 1, .key = 5, .source = 2}), &early);
}

TEST(posted_receives, the_first_one_that_names_its_source_is_known_whichever_source_that_is) {
  Matching matching{5};
  ReceiveOperation any = receive_of(1, 5, any_peer);
  ReceiveOperation of_others = receive_of(2, 5, 1);
  ReceiveOperation from_three = receive_of(1, 5, 3);
  ReceiveOperation from_one = receive_of(1, 5, 1);
  for (ReceiveOperation* receive : {&any, &of_others, &from_three, &from_one})
    matching.post(*receive);
  EXPECT_EQ(matching.first_posted(1), &from_three);
  matching.unpost(from_three);
  EXPECT_EQ(matching.first_posted(1), &from_one);
  EXPECT_EQ(matching.first_posted(3), nullptr);
}

TEST(posted_receives, that_were_taken_back_are_not_found) {
  Matching matching{5};
  ReceiveOperation first = receive_of(1, 5, 2);
  ReceiveOperation second = receive_of(1, 5, 2);
  matching.post(first);
  matching.post(second);
  matching.unpost(first);
  EXPECT_EQ(matching.take_posted({.communicator = 1, .key = 5, .source = 2}), &second);
}

TEST(unexpected_messages, are_found_in_the_order_they_came_and_stay_until_removed) {
  Matching matching{5};
  Unexpected& first = message_in(matching, 1, 5, 2);
  Unexpected& second = message_in(matching, 1, 6, 2);
  Unexpected& third = message_in(matching, 1, 5, 3);
  EXPECT_EQ(matching.messages_in_use(), 3U);
  EXPECT_EQ(matching.find_unexpected(receive_of(1, 0, any_peer, true)), &first);
  EXPECT_EQ(matching.find_unexpected(receive_of(1, 0, any_peer, true)), &first)
      << "a look leaves it in line";
  EXPECT_EQ(matching.find_unexpected(receive_of(1, 6, any_peer)), &second);
  EXPECT_EQ(matching.find_unexpected(receive_of(1, 0, 3, true)), &third);
  EXPECT_EQ(matching.find_unexpected(receive_of(2, 0, any_peer, true)), nullptr);
  matching.remove(first);
  matching.free_message(first);
  EXPECT_EQ(matching.find_unexpected(receive_of(1, 0, any_peer, true)), &second);
  EXPECT_EQ(matching.messages_in_use(), 2U);
  EXPECT_EQ(&message_in(matching, 1, 7, 2), &first) << "its memory is used again";
}

TEST(collective_messages, are_never_taken_by_a_receive_of_any_tag) {
  Matching matching{5};
  const std::uint64_t key = collective_key(0);
  EXPECT_TRUE(is_collective(key));
  EXPECT_FALSE(is_collective(tag_key(2147483647)));
  EXPECT_EQ(operation_of(collective_key(0xfedcba98)), 0xfedcba98U);
  ReceiveOperation any = receive_of(1, 0, any_peer, true);
  matching.post(any);
  EXPECT_EQ(matching.take_posted({.communicator = 1, .key = key, .source = 2}), nullptr);
  Unexpected& message = message_in(matching, 1, key, 2);
  EXPECT_EQ(matching.find_unexpected(any), nullptr);
  EXPECT_EQ(matching.find_unexpected(receive_of(1, key, 2)), &message);
  EXPECT_EQ(matching.find_unexpected(receive_of(1, collective_key(1), 2)), nullptr)
      << "another operation";
}

}  // namespace
