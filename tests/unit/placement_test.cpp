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

}  // namespace
}  // namespace qpmesh::transport::verbs
