// SPDX-License-Identifier: MIT
// Large steps of collectives, whose receivers answer before they are asked, and memory that is
// taken back from a peer.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "collectives/group.hpp"
#include "context/communicator_state.hpp"
#include "simulation/scenarios.hpp"

namespace qpmesh::test {
namespace {

using collectives::Group;
using collectives::Round;
using collectives::Task;
using simulator::Random;

// Of one collective: rank 0 sends, rank 1 receives.
struct Step {
  std::size_t sent_bytes;
  std::size_t received_bytes;
  bool combined = false;
};

constexpr int steps_at_once = 4;

std::byte sent_byte(std::size_t step, std::size_t i) {
  return static_cast<std::byte>(step * 31 + i * 7 + 1);
}

const collectives::Reducer add_bytes{
    .kernel = collectives::reduce_kernel(ReductionKind::sum, ElementType::uint8),
    .element_bytes = 1};

using Buffers = std::vector<std::vector<std::byte>>;

Task sends_steps(Group group, const Buffers* buffers) {
  Round<steps_at_once> round{group};
  for (std::size_t step = 0; step < buffers->size(); ++step) {
    round.send(1, (*buffers)[step]);
    if (step % steps_at_once == steps_at_once - 1) co_await round;
  }
  co_await round;
}

Task receives_steps(Group group, const std::vector<Step>* steps, Buffers* buffers) {
  Round<steps_at_once> round{group};
  for (std::size_t step = 0; step < steps->size(); ++step) {
    std::vector<std::byte>& buffer = (*buffers)[step];
    if ((*steps)[step].combined) round.receive_reduce(0, buffer, buffer.data(), add_bytes);
    else round.receive(0, buffer);
    if (step % steps_at_once == steps_at_once - 1) co_await round;
  }
  co_await round;
}

struct End {
  std::optional<ErrorDetail> error;
  Deadline time{};
};

// One rank's part of the collective, as the public face would start it.
Script takes_part(SimulatedJob* job, int rank, std::int64_t after_ns,
                  const std::vector<Step>* steps, End* end) {
  co_await job->until_after(rank, after_ns);
  Buffers buffers;
  for (std::size_t step = 0; step < steps->size(); ++step) {
    std::vector<std::byte>& buffer =
        buffers.emplace_back(rank == 0 ? (*steps)[step].sent_bytes : (*steps)[step].received_bytes);
    for (std::size_t i = 0; i < buffer.size(); ++i)
      buffer[i] = rank == 0 ? sent_byte(step, i) : std::byte{1};
  }
  progress::TaskOperation operation;
  const EndsOperations ends{*job, rank};
  const Group group = Access::state(job->world(rank))->begin({.operation = "steps"});
  job->context(rank).engine().start(operation, [&] {
    return rank == 0 ? sends_steps(group, &buffers) : receives_steps(group, steps, &buffers);
  });
  co_await until(operation.done);
  end->time = job->network().now();
  try {
    if (operation.error) std::rethrow_exception(operation.error);
  } catch (const Error& error) {
    end->error = error.detail();
    Access::state(job->world(rank))->fail(error.detail(), true);
    co_return;
  }
  if (rank == 0) co_return;
  for (std::size_t step = 0; step < steps->size(); ++step) {
    for (std::size_t i = 0; i < buffers[step].size(); ++i) {
      const int added = (*steps)[step].combined ? 1 : 0;
      if (std::to_integer<int>(buffers[step][i]) !=
          (std::to_integer<int>(sent_byte(step, i)) + added) % 256)
        throw std::runtime_error(fmt::format("byte {} of step {} is wrong", i, step));
    }
  }
}

struct Result {
  std::array<End, 2> ends;
  messaging::Counters counters;
};

Result run_steps(const NetworkConfig& network, const std::vector<Step>& steps,
                 std::array<std::int64_t, 2> begin_ns) {
  Result result;
  SimulatedJob job{network};
  for (int rank = 0; rank < 2; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    job.start(rank, takes_part(&job, rank, begin_ns[at], &steps, &result.ends[at]));
  }
  EXPECT_EQ(job.run(), "");
  EXPECT_EQ(job.close(), "");
  result.counters = job.counters();
  return result;
}

constexpr std::int64_t late_ns = 1'000'000;

class Preposted : public testing::TestWithParam<Flavour> {
 protected:
  static NetworkConfig network(std::uint64_t seed) { return GetParam().config(2, seed); }
  static bool preposts() {
    return network(1).registers_user_memory && !network(1).rendezvous_reads;
  }
  static std::uint64_t when_preposted(std::uint64_t count) { return preposts() ? count : 0; }
};

TEST_P(Preposted, a_send_that_begins_late_finds_its_answer_waiting) {
  const Result result = run_steps(network(1), {{5'000, 5'000}, {7'000, 7'000, true}}, {late_ns, 0});
  EXPECT_EQ(result.counters.preposted_receives, when_preposted(2));
  EXPECT_EQ(result.counters.preposted_sends, when_preposted(2));
  EXPECT_EQ(result.counters.zero_copy_sends, when_preposted(1))
      << "what is combined comes through the ring";
}

TEST_P(Preposted, an_offer_that_came_before_its_receive_is_answered_once) {
  const Result result = run_steps(network(2), {{5'000, 5'000}}, {0, late_ns});
  EXPECT_EQ(result.counters.preposted_receives, 0U);
  EXPECT_EQ(result.counters.preposted_sends, 0U);
}

TEST_P(Preposted, steps_of_all_sizes_find_their_receives_whoever_is_first) {
  constexpr std::array<std::size_t, 8> sizes{0, 8, 168, 169, 1'024, 1'025, 5'000, 20'000};
  messaging::Counters sum;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    Random random{seed};
    std::vector<Step> steps;
    for (int i = 0; i < 24; ++i) {
      const std::size_t bytes = sizes[random.below(sizes.size())];
      steps.push_back({bytes, bytes, random.chance(0.3)});
    }
    const Result result =
        run_steps(network(seed), steps, {random.between(0, 30'000), random.between(0, 30'000)});
    for (const End& end : result.ends)
      ASSERT_FALSE(end.error) << "seed " << seed << ": " << end.error->cause;
    sum.preposted_receives += result.counters.preposted_receives;
    sum.preposted_sends += result.counters.preposted_sends;
  }
  EXPECT_EQ(sum.preposted_receives > sum.preposted_sends, preposts()) << "some cross their offers";
  EXPECT_EQ(sum.preposted_sends > 0, preposts());
}

TEST_P(Preposted,
       a_step_of_another_length_breaks_the_communicator_and_is_not_written_where_it_was_opened) {
  for (const Step step :
       {Step{6'000, 5'000}, Step{5'000, 6'000}, Step{8, 5'000}, Step{1'000, 5'000}}) {
    for (const auto& begin_ns : {std::array<std::int64_t, 2>{0, 0}, {late_ns, 0}, {0, late_ns}}) {
      const Result result = run_steps(network(3), {step}, begin_ns);
      const auto& error = result.ends[1].error;
      ASSERT_TRUE(error.has_value()) << step.sent_bytes;
      EXPECT_EQ(error->code, ErrorCode::mismatch) << error->cause;
      EXPECT_EQ(error->peer, 0);
      EXPECT_EQ(error->cause, fmt::format("a step of {} bytes arrived where {} were due",
                                          step.sent_bytes, step.received_bytes));
      if (begin_ns[1] == 0) {
        EXPECT_EQ(result.counters.zero_copy_sends, 0U);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(all, Preposted, testing::ValuesIn(flavours()),
                         [](const auto& flavour) { return std::string{flavour.param.name}; });

// ---- revocations ----

Script reduces_once(SimulatedJob* job, Communicator* communicator, std::size_t count, End* end) {
  std::vector<std::uint64_t> values(count, 1);
  try {
    Request request = communicator->allreduce_async(values, sum);
    co_await until(request);
    request.wait();
  } catch (const Error& error) {
    end->error = error.detail();
  }
  end->time = job->network().now();
}

// Rank 1 has memory open to rank 0 when rank 2 dies. Returns how rank 1's part ended, and how long
// after the death.
std::pair<ErrorDetail, Deadline::duration> ends_with_rank_2(SimulatedJob& job) {
  End end;
  const std::vector<Step> never_sent{{5'000, 5'000}};
  const Deadline death = job.network().after_ms(2);
  job.network().at(death, [&] { job.network().kill(2); });
  job.start(1, takes_part(&job, 1, 0, &never_sent, &end));
  job.run();
  EXPECT_NE(job.context(1).messaging().counters().preposted_receives, 0U);
  EXPECT_TRUE(end.error.has_value());
  return {end.error.value_or(ErrorDetail{}), end.time - death};
}

constexpr std::chrono::milliseconds revocation_max{messaging::revocation_ms_max};

TEST(revocations, do_not_wait_for_a_peer_that_stands_still) {
  SimulatedJob job{simulator::immediate_network(3, 1)};
  job.network().at(job.network().after_ms(1), [&] { job.network().freeze(0); });
  const auto [error, after] = ends_with_rank_2(job);
  EXPECT_EQ(error.code, ErrorCode::peer_dead) << error.cause;
  EXPECT_EQ(error.peer, 2);
  EXPECT_GE(after, revocation_max);
  EXPECT_LE(after, 2 * revocation_max);
}

constexpr std::size_t closed_bytes = 50'000;
constexpr std::int64_t standstill_ns = 200'000'000;

Script sends_large(SimulatedJob* job, Communicator* by, int rank, int messages) {
  const std::vector<std::byte> data(closed_bytes, std::byte{7});
  std::vector<Request> requests;
  requests.reserve(static_cast<std::size_t>(messages));
  for (int i = 0; i < messages; ++i) requests.push_back(by->send_async(data, 1, i));
  const EndsOperations ends{*job, rank};
  co_await until_all(requests);
}

// Rank 1 has its memory back from rank 0, which stands still. Rank 2 sends into it, then and later:
// how many of its messages were written there directly.
Script receives_into_closed_memory(SimulatedJob* job, Communicator* failing,
                                   std::array<std::uint64_t, 2>* written) {
  std::vector<std::byte> data(closed_bytes);
  Request from_0 = failing->receive_async(data, 0, 0);
  Request from_2;
  const EndsOperations ends{*job, 1};
  co_await job->until_after(1, 100'000);
  Access::state(*failing)->fail({.code = ErrorCode::aborted, .peer = 1, .cause = "enough"}, true);
  co_await until(from_0);
  for (int i = 0; i < 2; ++i) {
    from_2 = job->world(1).receive_async(data, 2, i);
    co_await until(from_2);
    from_2.wait();
    (*written)[static_cast<std::size_t>(i)] =
        job->context(2).messaging().counters().zero_copy_sends;
    co_await job->until_after(1, 2 * standstill_ns);
  }
}

TEST(revocations, open_memory_anew_only_when_the_peer_has_answered_that_it_was_closed_to) {
  SimulatedJob job{simulator::immediate_network(3, 1)};
  std::array<std::uint64_t, 2> written{};
  std::vector<Communicator> failing;
  failing.reserve(2);
  for (int rank = 0; rank < 2; ++rank) failing.push_back(job.communicator(rank, 7, {0, 1}));
  job.start(0, sends_large(&job, &failing[0], 0, 1));
  job.start(1, receives_into_closed_memory(&job, &failing[1], &written));
  job.start(2, sends_large(&job, &job.world(2), 2, 2));
  const Deadline begin = job.network().now();
  job.network().at(begin + std::chrono::nanoseconds{1'000}, [&] { job.network().freeze(0); });
  job.network().at(begin + std::chrono::nanoseconds{standstill_ns}, [&] { job.network().thaw(0); });
  EXPECT_EQ(job.run(), "");
  EXPECT_EQ(job.close(), "");
  failing.clear();
  EXPECT_EQ(written, (std::array<std::uint64_t, 2>{0, 1}));
}

TEST(revocations, leave_the_link_to_a_peer_that_answers_whole) {
  SimulatedJob job{simulator::immediate_network(3, 1)};
  const auto [error, its_time] = ends_with_rank_2(job);
  EXPECT_EQ(error.code, ErrorCode::peer_dead) << error.cause;
  EXPECT_LE(its_time, revocation_max / 2);
  std::array<End, 2> after;
  std::vector<Communicator> pair;
  pair.reserve(after.size());
  for (int rank = 0; rank < 2; ++rank) pair.push_back(job.communicator(rank, 7, {0, 1}));
  for (int rank = 0; rank < 2; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    job.start(rank, reduces_once(&job, &pair[at], 4'000, &after[at]));
  }
  EXPECT_EQ(job.run(), "");
  EXPECT_EQ(job.close(), "");
  for (const End& end : after) EXPECT_FALSE(end.error.has_value()) << end.error->cause;
  pair.clear();
}

}  // namespace
}  // namespace qpmesh::test
