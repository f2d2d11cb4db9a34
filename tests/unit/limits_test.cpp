// SPDX-License-Identifier: MIT
// Whether a device has room for the queues of a rank.
#include "transport/verbs/selection/rules.hpp"

#include <gtest/gtest.h>

#include "support/expected_error.hpp"

namespace qpmesh::transport::verbs::selection {
namespace {

// As rxe says.
DeviceFacts rxe() {
  return {.name = "rxe0", .work_requests_max = 16'384, .completions_max = 32'767};
}

void expect_no_room(const QueueNeeds& needs, const std::string& cause) {
  try {
    require_room(rxe(), needs);
    ADD_FAILURE() << "there is room";
  } catch (const Error& error) {
    EXPECT_EQ(
        test::difference(
            error, {ErrorCode::no_resource, no_peer, "init", cause,
                    "lower QPMESH_NETWORK_RING_BYTES: smaller rings hold fewer messages at once"}),
        "");
  }
}

TEST(a_device, has_room_for_as_many_entries_as_it_says) {
  EXPECT_NO_THROW(require_room(rxe(), {.peers = 2, .sends = 16'383, .receives = 16'383}));
}

TEST(a_device, that_does_not_tell_its_limits_is_tried) {
  EXPECT_NO_THROW(
      require_room({.name = "new"}, {.peers = 1'000, .sends = 64, .receives = 100'000}));
}

TEST(a_device, has_completion_queues_for_all_that_is_under_way_with_each_of_their_peers) {
  EXPECT_EQ(peers_per_queue(rxe(), {.peers = 7, .sends = 64, .receives = 598}), 7U);
  EXPECT_EQ(peers_per_queue(rxe(), {.peers = 63, .sends = 64, .receives = 598}), 54U);
  EXPECT_EQ(peers_per_queue(rxe(), {.peers = 1'023, .sends = 64, .receives = 1}), 511U);
  EXPECT_EQ(peers_per_queue(rxe(), {.peers = 3, .sends = 64, .receives = 32'767}), 1U);
  EXPECT_EQ(peers_per_queue({.name = "new"}, {.peers = 1'000, .sends = 64, .receives = 100'000}),
            1'000U);
}

TEST(a_device, without_room_is_named_with_need_and_limit_and_the_option_that_helps) {
  expect_no_room({.peers = 1, .sends = 64, .receives = 16'385},
                 "a receive queue of 16385 entries is needed, device rxe0 has at most 16384");
  expect_no_room({.peers = 1, .sends = 16'385, .receives = 64},
                 "a send queue of 16385 entries is needed, device rxe0 has at most 16384");
}

}  // namespace
}  // namespace qpmesh::transport::verbs::selection
