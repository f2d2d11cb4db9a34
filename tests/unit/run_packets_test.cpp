// SPDX-License-Identifier: MIT
// Packets between a courier of qpmesh-run and its job.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <optional>

#include "base/owned.hpp"
#include "tools/run/wire.hpp"

namespace qpmesh::run {
namespace {

// The kernel tells of the unread one first: who failed on that host was then never heard of.
TEST(packets, of_a_job_that_ended_are_all_taken_though_it_left_one_unread) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
  const base::UniqueFd courier{ends[0]};
  base::UniqueFd job{ends[1]};
  send_packet(courier.get(), {.word = Word::failed, .payload = {}});
  for (const Word word : {Word::ended, Word::settled})
    send_packet(job.get(), {.word = word, .payload = {}});
  job.reset();
  for (const Word word : {Word::ended, Word::settled}) {
    const std::optional<Message> message = receive_packet(courier.get());
    ASSERT_TRUE(message.has_value());
    EXPECT_EQ(message->word, word);
  }
  EXPECT_FALSE(receive_packet(courier.get()).has_value());
}

}  // namespace
}  // namespace qpmesh::run
