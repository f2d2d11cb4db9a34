// SPDX-License-Identifier: MIT
// What a rank knows of how its peers fare.
#include "context/peer_health.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>

namespace {

using namespace qpmesh;
using context::PeerHealth;

const Deadline soon{std::chrono::steady_clock::now()};
const Deadline later{soon + std::chrono::seconds{1}};

ErrorDetail failed_link(int peer) {
  return {.code = ErrorCode::link_failed, .peer = peer, .cause = "its link failed"};
}

TEST(peer_health, asks_again_for_who_was_not_lost_when_its_time_was_over) {
  PeerHealth health{3};
  health.doubts(failed_link(1), soon);
  health.doubts(failed_link(2), later);
  ASSERT_EQ(health.verdicts(soon).size(), std::size_t{1});
  // There was no memory to lose it.
  ASSERT_EQ(health.verdicts(soon).size(), std::size_t{1});
  health.loses(failed_link(1));
  EXPECT_TRUE(health.verdicts(soon).empty());
  EXPECT_EQ(health.next_verdict(), later);
}

TEST(peer_health, has_no_verdict_on_a_rank_that_left_after_its_link_failed) {
  PeerHealth health{2};
  health.doubts(failed_link(1), soon);
  health.leaves(1);
  EXPECT_TRUE(health.verdicts(later).empty());
}

}  // namespace
