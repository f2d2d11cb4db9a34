// SPDX-License-Identifier: MIT
// What the self-test of a device may conclude: it takes promises away and never makes one.
#include <gtest/gtest.h>

#include "transport/verbs/self_test.hpp"

namespace qpmesh::transport::verbs {
namespace {

using namespace selection;

constexpr Notifications polled{Notification::poll, Notification::poll, "tested"};
constexpr Notifications immediate{Notification::immediate, Notification::immediate, "tested"};

Placement clean(bool vouched) {
  return {.records = 256, .partial = 3, .vouched_in_order = vouched, .failure = {}};
}

TEST(placement, that_keeps_its_promises_keeps_them) {
  const Notifications found = judge_placement(polled, clean(true));
  EXPECT_EQ(found.small, Notification::poll);
  EXPECT_EQ(found.medium, Notification::poll);
  EXPECT_TRUE(found.bytes_in_order) << "records seen in part are how every device works";
}

TEST(placement, of_a_record_before_its_payload_leaves_only_immediates) {
  Placement seen = clean(true);
  seen.overtaken = 1;
  const Notifications found = judge_placement(polled, seen);
  EXPECT_EQ(found.small, Notification::immediate);
  EXPECT_EQ(found.medium, Notification::immediate);
}

TEST(placement, of_an_end_before_its_beginning_means_that_bytes_come_in_any_order) {
  Placement seen = clean(true);
  seen.out_of_order = 1;
  EXPECT_FALSE(judge_placement(polled, seen).bytes_in_order);
}

TEST(placement, promotes_nothing) {
  const Notifications found = judge_placement(immediate, clean(false));
  EXPECT_EQ(found.small, Notification::immediate);
  EXPECT_EQ(found.medium, Notification::immediate);
  EXPECT_FALSE(found.bytes_in_order);
}

TEST(placement, that_could_not_be_watched_is_not_vouched_for) {
  const Placement nothing{.vouched_in_order = true, .failure = "no record came back"};
  EXPECT_FALSE(judge_placement(polled, nothing).bytes_in_order);
}

Placement timed(std::uint32_t polled_ns, std::uint32_t immediate_ns) {
  Placement seen = clean(false);
  seen.polled_ns = polled_ns;
  seen.immediate_ns = immediate_ns;
  return seen;
}

TEST(placement, whose_immediates_come_clearly_sooner_has_immediates) {
  const Notifications found = prefer_sooner(polled, timed(1000, 899));
  EXPECT_EQ(found.small, Notification::immediate);
  EXPECT_EQ(found.medium, Notification::immediate);
  EXPECT_EQ(found.reason, "self-test: immediates came sooner");
}

TEST(placement, whose_immediates_come_hardly_sooner_stays_polled) {
  EXPECT_EQ(prefer_sooner(polled, timed(1000, 900)).small, Notification::poll);
}

TEST(placement, that_was_not_timed_stays_polled) {
  EXPECT_EQ(prefer_sooner(polled, timed(0, 0)).small, Notification::poll);
}

TEST(placement, is_never_polled_because_that_is_sooner) {
  EXPECT_EQ(prefer_sooner(immediate, timed(1, 1000)).small, Notification::immediate);
}

TEST(placement, that_was_timed_says_so_to_other_ranks) {
  const Placement told = decode_placement(encode(timed(12, 34)), 0);
  EXPECT_EQ(told.polled_ns, 12U);
  EXPECT_EQ(told.immediate_ns, 34U);
}

}  // namespace
}  // namespace qpmesh::transport::verbs
