// SPDX-License-Identifier: MIT
// What jobs do when ranks die, links fail, calls differ, and memory holds what no rank wrote.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <optional>

#include "calls/pending_operation.hpp"
#include "context/communicator_state.hpp"
#include "messaging/rings/layout.hpp"
#include "simulation/scenarios.hpp"

namespace qpmesh::test {
namespace {

using simulator::Random;

struct End {
  std::optional<ErrorDetail> error;
  Deadline time{};
};

// Allreduces until one throws, or `calls` of them.
Script reduces(SimulatedJob* job, Communicator* communicator, int rank, int calls,
               std::size_t count, End* end) {
  std::vector<std::uint64_t> values(count);
  for (int i = 0; i < calls; ++i) {
    std::fill(values.begin(), values.end(), 1);
    try {
      Request request = communicator->allreduce_async(values, sum);
      co_await until(request);
      request.wait();
    } catch (const Error& error) {
      end->error = error.detail();
      end->time = job->network().now();
      co_return;
    }
    for (const std::uint64_t value : values) {
      if (value != static_cast<std::uint64_t>(communicator->size()))
        throw std::runtime_error("a wrong sum");
    }
    if (i % 4 == 0) co_await job->until_after(rank, 1'000);
  }
}

Script barrier(Communicator* communicator, End* end) {
  try {
    Request request = communicator->barrier_async();
    co_await until(request);
    request.wait();
  } catch (const Error& error) {
    end->error = error.detail();
  }
}

Script receives(Communicator* communicator, int source, std::size_t bytes, End* end) {
  std::vector<std::byte> data(bytes);
  try {
    Request request = communicator->receive_async(data, source, any_tag);
    co_await until(request);
    request.wait();
  } catch (const Error& error) {
    end->error = error.detail();
  }
}

Script sends_after(SimulatedJob* job, int rank, std::int64_t duration_ns,
                   Communicator* communicator, int target, std::size_t bytes) {
  std::vector<std::byte> data(bytes);
  co_await job->until_after(rank, duration_ns);
  Request request = communicator->send_async(data, target);
  co_await until(request);
  request.wait();
}

// And time for all of them to arrive.
Script sends(SimulatedJob* job, Communicator* communicator, int target, int messages) {
  const std::vector<std::byte> data(8);
  for (int i = 0; i < messages; ++i) {
    Request request = communicator->send_async(data, target, 1);
    co_await until(request);
    request.wait();
  }
  co_await job->until_after(communicator->rank(), 10'000'000);
}

std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

class FaultsOnEveryNetwork : public testing::TestWithParam<Flavour> {
 protected:
  static NetworkConfig network(int rank_count, std::uint64_t seed) {
    return GetParam().config(rank_count, seed);
  }
};

TEST_P(FaultsOnEveryNetwork,
       messages_beyond_the_limit_for_a_communicator_not_made_here_yet_fail_it) {
  Options options = small_rings();
  options.unexpected_messages_max = 20;
  SimulatedJob job{network(2, 1), options};
  {
    Communicator first = job.communicator(0, 400, {0, 1});
    job.start(0, sends(&job, &first, 1, 30));
    ASSERT_EQ(job.run(), "");
    Communicator second = job.communicator(1, 400, {0, 1});
    End end;
    job.start(1, receives(&second, 0, 8, &end));
    ASSERT_EQ(job.run(), "");
    ASSERT_TRUE(end.error.has_value()) << "the receive got a message, though one before it is lost";
    EXPECT_EQ(end.error->code, ErrorCode::no_resource);
    EXPECT_EQ(end.error->peer, 0);
    EXPECT_EQ(
        end.error->cause,
        "the communicator failed in receive: 20 messages wait for receives that were never posted");
    EXPECT_EQ(end.error->hint, "post receives, or raise QPMESH_UNEXPECTED_MESSAGES_MAX");
  }
  EXPECT_EQ(job.close(), "");
}

TEST_P(FaultsOnEveryNetwork, a_dead_rank_ends_only_the_communicators_that_hold_it) {
  constexpr int size = 4;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    Random random{seed * 1'000'003};
    const int victim = static_cast<int>(random.below(size));
    const std::size_t count = std::array<std::size_t, 3>{1, 200, 2'000}[random.below(3)];
    std::vector<int> survivors;
    for (int rank = 0; rank < size; ++rank) {
      if (rank != victim) survivors.push_back(rank);
    }
    SimulatedJob job{network(size, seed)};
    const std::int64_t alive_ns = random.between(0, 2'000'000);
    const Deadline death = job.network().now() + std::chrono::nanoseconds{alive_ns};
    job.network().at(death, [&] { job.network().kill(victim); });
    std::vector<End> world_ends(size);
    std::vector<End> survivor_ends(size);
    std::vector<Communicator> others;
    others.reserve(size);
    for (int rank = 0; rank < size; ++rank) {
      job.start(rank,
                reduces(&job, &job.world(rank), rank, 1'000'000, count, &world_ends[index(rank)]));
      if (rank == victim) continue;
      others.push_back(job.communicator(rank, 300, survivors));
      job.start(rank, reduces(&job, &others.back(), rank, 200, count, &survivor_ends[index(rank)]));
    }
    job.run();
    ASSERT_EQ(job.close(), "") << "seed " << seed;
    for (const int rank : survivors) {
      const End& end = world_ends[index(rank)];
      ASSERT_TRUE(end.error.has_value());
      EXPECT_EQ(end.error->code, ErrorCode::peer_dead)
          << "seed " << seed << ": " << end.error->cause;
      EXPECT_EQ(end.error->peer, victim) << "seed " << seed << ": " << end.error->cause;
      EXPECT_LE(end.time - death, std::chrono::milliseconds{32}) << "seed " << seed;
      EXPECT_FALSE(survivor_ends[index(rank)].error.has_value())
          << "seed " << seed << ": " << survivor_ends[index(rank)].error->cause;
    }
    others.clear();
  }
}

TEST_P(FaultsOnEveryNetwork, a_failed_link_ends_what_needs_it_on_every_rank) {
  constexpr int size = 3;
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    Random random{seed * 1'000'003};
    SimulatedJob job{network(size, seed)};
    const Deadline failure =
        job.network().now() + std::chrono::nanoseconds{random.between(0, 1'000'000)};
    job.network().at(failure, [&] { job.network().fail_link(0, 1); });
    std::vector<End> ends(size);
    for (int rank = 0; rank < size; ++rank) {
      job.start(rank, reduces(&job, &job.world(rank), rank, 1'000'000, 50, &ends[index(rank)]));
    }
    job.run();
    ASSERT_EQ(job.close(), "") << "seed " << seed;
    for (int rank = 0; rank < size; ++rank) {
      const End& end = ends[index(rank)];
      ASSERT_TRUE(end.error.has_value());
      EXPECT_EQ(end.error->code, ErrorCode::link_failed) << end.error->cause;
      EXPECT_TRUE(end.error->peer == 0 || end.error->peer == 1);
      EXPECT_NE(end.error->cause.find("the link between ranks 0 and 1 failed"), std::string::npos)
          << end.error->cause;
      EXPECT_LE(end.time - failure,
                std::chrono::milliseconds{130});  // after the time for a death to show
    }
  }
}

// What was on its way is lost, and nobody has anything to send.
TEST_P(FaultsOnEveryNetwork, a_rank_that_only_waits_learns_of_a_failed_link) {
  SimulatedJob job{network(2, 3)};
  End end;
  job.start(1, receives(&job.world(1), 0, 8, &end));
  job.network().at(job.network().after_ms(1), [&] { job.network().fail_link(0, 1); });
  job.run();
  ASSERT_EQ(job.close(), "");
  ASSERT_TRUE(end.error.has_value());
  EXPECT_EQ(end.error->code, ErrorCode::link_failed) << end.error->cause;
  EXPECT_EQ(end.error->peer, 0);
}

// Its device answers nobody any more, and what it was last written may need an answer.
TEST_P(FaultsOnEveryNetwork, a_link_that_fails_when_its_rank_has_left_is_nobodys_failure) {
  SimulatedJob job{network(3, 4)};
  End end;
  job.start(0, receives(&job.world(0), 2, 8, &end));
  job.start(2, sends_after(&job, 2, 500'000'000, &job.world(2), 0, 8));
  job.network().at(job.network().after_ms(1), [&] { job.network().leave(1); });
  job.network().at(job.network().after_ms(20), [&] { job.network().fail_link(0, 1); });
  EXPECT_EQ(job.run(), "");
  EXPECT_FALSE(end.error.has_value()) << end.error->cause;
  ASSERT_EQ(job.close(), "");
}

TEST_P(FaultsOnEveryNetwork, a_death_during_a_large_message_ends_the_other_side) {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    const std::vector<std::byte> large(200'000);
    SimulatedJob job{network(2, seed)};
    const int victim = static_cast<int>(seed % 2);
    std::array<End, 2> ends;
    const auto sends = [](SimulatedJob* its_job, const std::vector<std::byte>* data,
                          End* end) -> Script {
      try {
        Request request = its_job->world(0).send_async(*data, 1, 0);
        co_await until(request);
        request.wait();
      } catch (const Error& error) {
        end->error = error.detail();
      }
    };
    job.start(0, sends(&job, &large, &ends[0]));
    job.start(1, receives(&job.world(1), 0, large.size(), &ends[1]));
    const auto alive = std::chrono::nanoseconds{static_cast<std::int64_t>(seed) * 3'000};
    job.network().at(job.network().now() + alive, [&] { job.network().kill(victim); });
    job.run();
    ASSERT_EQ(job.close(), "") << "seed " << seed;
    const auto& error = ends[index(1 - victim)].error;
    if (!error.has_value()) continue;  // it was through already
    EXPECT_EQ(error->code, ErrorCode::peer_dead) << error->cause;
    EXPECT_EQ(error->peer, victim);
  }
}

TEST_P(FaultsOnEveryNetwork, different_collectives_are_named_on_both_sides) {
  SimulatedJob job{network(2, 4)};
  std::array<End, 2> ends;
  job.start(0, barrier(&job.world(0), &ends[0]));
  job.start(1, reduces(&job, &job.world(1), 1, 1, 3, &ends[1]));
  job.run();
  ASSERT_EQ(job.close(), "");
  for (int rank = 0; rank < 2; ++rank) {
    const auto& error = ends[index(rank)].error;
    ASSERT_TRUE(error.has_value()) << rank;
    EXPECT_EQ(error->code, ErrorCode::mismatch);
    EXPECT_EQ(error->peer, 1 - rank);
    EXPECT_NE(error->cause.find("barrier()"), std::string::npos) << error->cause;
    EXPECT_NE(error->cause.find("allreduce(3 uint64, sum)"), std::string::npos) << error->cause;
  }
}

TEST_P(FaultsOnEveryNetwork, different_counts_are_named_on_both_sides) {
  SimulatedJob job{network(3, 5)};
  std::array<End, 3> ends;
  for (int rank = 0; rank < 3; ++rank) {
    job.start(rank,
              reduces(&job, &job.world(rank), rank, 1, rank == 2 ? 5U : 4U, &ends[index(rank)]));
  }
  job.run();
  ASSERT_EQ(job.close(), "");
  for (const End& end : ends) {
    ASSERT_TRUE(end.error.has_value());
    EXPECT_EQ(end.error->code, ErrorCode::mismatch);
    EXPECT_NE(end.error->cause.find("4 uint64"), std::string::npos) << end.error->cause;
    EXPECT_NE(end.error->cause.find("5 uint64"), std::string::npos) << end.error->cause;
  }
}

Script reduces_with(Communicator* communicator, bool adds, End* end) {
  std::vector<std::uint64_t> values(3'000, 1);
  try {
    Request request = adds ? communicator->allreduce_async(values, sum)
                           : communicator->allreduce_async(values, max);
    co_await until(request);
    request.wait();
  } catch (const Error& error) {
    end->error = error.detail();
  }
}

// Large steps are answered before their offers are seen: another call's bytes must not be taken for
// these, nor for corruption.
TEST_P(FaultsOnEveryNetwork, different_calls_of_large_steps_are_named_and_the_link_stays_whole) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    SimulatedJob job{network(2, seed)};
    std::array<End, 2> ends;
    std::array<End, 2> after;
    std::vector<Communicator> others;
    others.reserve(2);
    for (int rank = 0; rank < 2; ++rank) {
      job.start(rank, reduces_with(&job.world(rank), rank == 0, &ends[index(rank)]));
      others.push_back(job.communicator(rank, 300, {0, 1}));
    }
    job.run();
    for (int rank = 0; rank < 2; ++rank) {
      const auto& error = ends[index(rank)].error;
      ASSERT_TRUE(error.has_value()) << "seed " << seed << ", rank " << rank;
      EXPECT_EQ(error->code, ErrorCode::mismatch) << "seed " << seed << ": " << error->cause;
      job.start(rank, reduces_with(&others[index(rank)], true, &after[index(rank)]));
    }
    EXPECT_EQ(job.run(), "") << "seed " << seed;
    EXPECT_EQ(job.close(), "") << "seed " << seed;
    for (const End& end : after) EXPECT_FALSE(end.error.has_value()) << end.error->cause;
    others.clear();
  }
}

// Rank 0 writes what no rank writes where rank 1 expects its next record.
void forge(SimulatedJob& job, std::uint8_t kind, std::uint8_t length_words) {
  messaging::RecordHeader header{};
  header.sequence = messaging::sequence_word(0);
  header.kind = static_cast<messaging::RecordKind>(kind);
  header.length_words = length_words;
  std::memcpy(job.slot(1, 0), &header, messaging::record_body_offset);
}

TEST(corrupt_records, end_the_communicators_of_both_and_name_the_writer) {
  for (const auto& [kind, length_words] :
       {std::pair<std::uint8_t, std::uint8_t>{1, 255}, {99, 6}, {4, 1}}) {
    SimulatedJob job{simulator::shared_memory_network(2, 6)};
    std::array<End, 2> ends;
    job.start(0, receives(&job.world(0), 1, 8, &ends[0]));
    job.start(1, receives(&job.world(1), 0, 8, &ends[1]));
    const std::uint8_t its_kind = kind;
    const std::uint8_t its_length = length_words;
    job.network().at(job.network().after_ms(1), [&] { forge(job, its_kind, its_length); });
    job.run();
    ASSERT_EQ(job.close(), "");
    for (const End& end : ends) {
      ASSERT_TRUE(end.error.has_value());
      EXPECT_EQ(end.error->code, ErrorCode::corrupt) << end.error->cause;
      EXPECT_EQ(end.error->peer, 0);
    }
  }
}

TEST(corrupt_records, are_not_believed_where_a_record_proves_itself) {
  SimulatedJob job{simulator::polled_network(2, 6)};
  End end;
  job.start(1, receives(&job.world(1), 0, 8, &end));
  job.network().at(job.network().after_ms(1), [&] { forge(job, 1, 7); });
  job.network().run_until([] { return false; }, job.network().after_ms(3));
  EXPECT_GT(job.context(1).messaging().counters().partial_records, 0U);
  EXPECT_FALSE(end.error.has_value());
  job.close();
}

// The end of a wait in virtual time, as Request::wait comes to it in real time.
Script gives_up(SimulatedJob* job, int rank, bool in_barrier, End* end) {
  std::vector<std::byte> data(8);
  try {
    Request request = in_barrier ? job->world(rank).barrier_async()
                                 : job->world(rank).receive_async(data, 1 - rank, 0);
    co_await job->until_after(rank, 5'000'000);
    if (!Access::state(request)->done()) calls::expire(*Access::state(request));
    co_await until(request);
    request.wait();
  } catch (const Error& error) {
    end->error = error.detail();
  }
}

TEST_P(FaultsOnEveryNetwork, a_receive_that_timed_out_leaves_the_communicator_whole) {
  SimulatedJob job{network(2, 7)};
  std::array<End, 2> ends;
  job.start(0, gives_up(&job, 0, false, &ends[0]));
  job.run();
  ASSERT_TRUE(ends[0].error.has_value());
  EXPECT_EQ(ends[0].error->code, ErrorCode::timeout);
  EXPECT_EQ(ends[0].error->peer, 1);
  End after;
  job.start(0, barrier(&job.world(0), &after));
  job.start(1, barrier(&job.world(1), &after));
  job.run();
  EXPECT_EQ(job.close(), "");
  EXPECT_FALSE(after.error.has_value());
}

TEST_P(FaultsOnEveryNetwork, a_barrier_that_timed_out_breaks_the_communicator_everywhere) {
  SimulatedJob job{network(2, 8)};
  std::array<End, 2> ends;
  job.start(0, gives_up(&job, 0, true, &ends[0]));
  job.start(1, receives(&job.world(1), 0, 8, &ends[1]));
  job.run();
  ASSERT_EQ(job.close(), "");
  for (const End& end : ends) {
    ASSERT_TRUE(end.error.has_value());
    EXPECT_EQ(end.error->code, ErrorCode::timeout) << end.error->cause;
    EXPECT_EQ(end.error->peer, 1);
  }
}

INSTANTIATE_TEST_SUITE_P(all, FaultsOnEveryNetwork, testing::ValuesIn(flavours()),
                         [](const auto& flavour) { return std::string{flavour.param.name}; });

}  // namespace
}  // namespace qpmesh::test
