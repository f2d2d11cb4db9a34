// SPDX-License-Identifier: MIT
// What two ranks can tell from the signatures of their calls: whether they differ, and since when.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "context/call_history.hpp"
#include "context/control_frames.hpp"

namespace {

using namespace qpmesh;
using context::CallHistory;
using context::CollectiveCall;
using context::ControlFrame;

CollectiveCall broadcast(int root) {
  return {.operation = "broadcast", .element_count = 4, .element_bytes = 4, .root = root};
}

std::uint32_t call(CallHistory& history, const CollectiveCall& what) {
  return history.begin(what, what.signature()).signature;
}

CallHistory of_roots(const std::vector<int>& roots) {
  CallHistory history;
  for (const int root : roots) call(history, broadcast(root));
  return history;
}

std::optional<std::uint32_t> difference(const CallHistory& a, const CallHistory& b) {
  const auto first = a.first_difference(b.signatures());
  EXPECT_EQ(first, b.first_difference(a.signatures())) << "both sides must find the same";
  return first;
}

TEST(call_history, a_difference_shows_in_every_later_call) {
  CallHistory one = of_roots({0, 1, 0});
  CallHistory other = of_roots({0, 0, 0});
  for (int i = 0; i < 10'000; ++i)
    ASSERT_NE(call(one, broadcast(3)), call(other, broadcast(3))) << i;
}

TEST(call_history, names_the_first_call_that_differs) {
  EXPECT_EQ(difference(of_roots({0, 1, 2, 3}), of_roots({0, 1, 2, 3})), std::nullopt);
  EXPECT_EQ(difference(of_roots({1}), of_roots({0})), 0U);
  EXPECT_EQ(difference(of_roots({0, 1, 2, 3}), of_roots({0, 1, 3, 3})), 2U);
  EXPECT_EQ(difference(of_roots({0, 1, 2, 3}), of_roots({0, 2, 1, 3})), 1U)
      << "the same in another order";
}

TEST(call_history, compares_what_both_have_begun) {
  EXPECT_EQ(difference(of_roots({}), of_roots({0, 1})), std::nullopt);
  EXPECT_EQ(difference(of_roots({0}), of_roots({0, 1, 2})), std::nullopt);
  EXPECT_EQ(difference(of_roots({0, 5}), of_roots({0, 1, 2, 3, 4, 5, 6})), 1U);
}

TEST(call_history, remembers_so_many_calls_and_says_what_is_past) {
  constexpr auto many = static_cast<std::uint32_t>(3 * CallHistory::remembered_max);
  CallHistory one = of_roots({0});
  CallHistory other = of_roots({1});
  for (std::uint32_t i = 1; i < many; ++i) {
    call(one, broadcast(2));
    call(other, broadcast(2));
  }
  EXPECT_EQ(one.signatures().values.size(), CallHistory::remembered_max);
  EXPECT_EQ(difference(one, other), many - CallHistory::remembered_max)
      << "the first one that both remember";
  EXPECT_EQ(one.describe(0), "a call long past");
  EXPECT_EQ(one.describe(many - 1), "broadcast(4 elements of 4 bytes, root 2)");
  EXPECT_EQ(one.describe(many), "a call not made yet");
}

TEST(call_history, a_difference_that_a_peer_saw_counts_where_no_call_is_remembered_by_both) {
  constexpr bool peer_saw_one = true;
  const CallHistory one = of_roots({0, 1, 2});
  EXPECT_EQ(one.first_difference(of_roots({0, 1, 2, 3}).signatures(), peer_saw_one), std::nullopt)
      << "what it saw was left by a call of 2^32 calls ago";
  EXPECT_EQ(one.first_difference(of_roots({0, 1, 3}).signatures(), peer_saw_one), 2U);
  constexpr std::size_t far_ahead = 3 + CallHistory::remembered_max;
  const CallHistory::Signatures peers = of_roots(std::vector<int>(far_ahead, 0)).signatures();
  EXPECT_EQ(one.first_difference(peers, peer_saw_one), peers.first_operation);
  EXPECT_EQ(one.first_difference(peers), std::nullopt);
}

TEST(control_frames, carry_signatures_and_no_more_than_are_remembered) {
  ControlFrame frame{.kind = ControlFrame::Kind::calls, .communicator = 7, .reply_wanted = true};
  frame.signatures.first_operation = 70;
  for (std::uint32_t i = 1; i <= CallHistory::remembered_max; ++i)
    frame.signatures.values.push_back(1000 * i);
  const Blob encoded = encode(frame);
  const auto read = context::decode_control_frame(encoded);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->kind, ControlFrame::Kind::calls);
  EXPECT_EQ(read->signatures.first_operation, 70U);
  EXPECT_EQ(read->signatures.values, frame.signatures.values);
  EXPECT_TRUE(read->reply_wanted);
  for (std::size_t i = 0; i < encoded.size(); ++i) {  // what says that there are more
    Blob damaged = encoded;
    damaged[i] = std::byte{0xff};
    const auto reread = context::decode_control_frame(damaged);
    EXPECT_TRUE(!reread || reread->signatures.values.size() <= CallHistory::remembered_max) << i;
  }
  frame.signatures.values.push_back(0);
  EXPECT_FALSE(context::decode_control_frame(encode(frame)).has_value());
}

}  // namespace
