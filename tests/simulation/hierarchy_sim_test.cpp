// SPDX-License-Identifier: MIT
// Communicators on several nodes with several ranks on some: calls under way at the same time,
// deaths, differing calls, deadlines, and what they take of their ranks' memory.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "calls/pending_operation.hpp"
#include "collectives/hierarchy.hpp"
#include "context/communicator_state.hpp"
#include "simulation/scenarios.hpp"

namespace qpmesh::test {
namespace {

using simulator::Random;

std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

const std::vector<std::vector<int>> placements{
    {0, 0, 1, 1}, {0, 1, 0, 1}, {0, 0, 0, 1}, {0, 0, 1, 1, 2, 2}, {0, 1, 1, 0, 2, 2, 2}};

class OnNodes : public testing::TestWithParam<std::vector<int>> {
 protected:
  static int size() { return static_cast<int>(GetParam().size()); }
  static NetworkConfig network(std::uint64_t seed) {
    return simulator::network_of_nodes(simulator::polled_network(size(), seed), GetParam());
  }
};
INSTANTIATE_TEST_SUITE_P(placed, OnNodes, testing::ValuesIn(placements), [](const auto& nodes) {
  return fmt::format("{}", fmt::join(nodes.param, "_"));
});

// One of many calls of a rank, by number the same on all.
struct Call {
  std::vector<std::uint64_t> data{};
  std::vector<std::uint64_t> block{};  // of this rank, where data has those of all
  std::vector<std::uint64_t> in{};     // of an alltoall
  std::vector<std::size_t> counts{};
  Request request{};
  std::uint64_t expected = 0;
};

// Sums on all ranks and on one, prefix sums, vectors from a root, blocks of their own lengths to
// and from one, and barriers, by the rows of several nodes, flat ones, and other lengths. Each rank
// starts them in its own time.
Script starts_many(SimulatedJob* job, int rank, int calls, std::uint64_t seed,
                   std::array<std::size_t, 4> lengths) {
  Communicator& world = job->world(rank);
  const auto size = static_cast<std::uint64_t>(world.size());
  Random random{seed * 100 + static_cast<std::uint64_t>(rank)};
  Random same{seed};  // on every rank
  const auto applies = [&](Collective collective, std::string_view algorithm) {
    return std::ranges::any_of(world.explain(collective, 8), [&](const Candidate& row) {
      return row.algorithm == algorithm && row.applies;
    });
  };
  const bool scans_by_nodes = applies(Collective::scan, "lanes");
  const bool has_shares = applies(Collective::reduce, "multiport_sliced");
  std::vector<Call> all(index(calls));
  for (int i = 0; i < calls; ++i) {
    Call& call = all[index(i)];
    const std::uint64_t row = same.below(3);
    const CallOptions options{.algorithm = std::array<std::string_view, 3>{
                                  "leaders", "lanes", has_shares ? "multiport_sliced" : ""}[row]};
    const CallOptions scan_options{
        .algorithm = std::array<std::string_view, 3>{"leaders", "lanes", "multiport"}[row]};
    const auto root = static_cast<int>(same.below(size));
    call.data.assign(lengths[same.below(4)], 0);
    const auto own = static_cast<std::uint64_t>(i) + 1;
    call.expected = own * size;
    call.counts.resize(index(world.size()));
    std::size_t count_of_all = 0;
    for (std::size_t& count : call.counts)
      count_of_all += count = same.below(3) == 0 ? lengths[same.below(4)] / 2 : same.below(20);
    const CallOptions v_options{.algorithm = row == 0 ? "" : "leaders_v"};
    switch (same.below(8)) {
      case 0:
        std::ranges::fill(call.data, own);
        call.request = world.allreduce_async(call.data, sum, options);
        break;
      case 1:
        if (rank == root) std::ranges::fill(call.data, own * size);
        call.request = world.broadcast_async(call.data, root, options);
        break;
      case 2:
        std::ranges::fill(call.data, own);
        if (rank != root) call.expected = own;
        call.request = world.reduce_async(call.data, sum, root, options);
        break;
      case 3:  // of what rank 0 has
        if (rank == 0) std::ranges::fill(call.data, own * size);
        call.request = world.scan_async(call.data, call.data, sum,
                                        scans_by_nodes ? scan_options : CallOptions{});
        break;
      case 4:
        call.expected = own;
        call.data.assign(rank == root ? count_of_all : 0, 0);
        call.block.assign(call.counts[index(rank)], own);
        call.request =
            world.gather_async(call.block, blocks(call.data, call.counts), root, v_options);
        break;
      case 5:
        call.expected = own;
        call.data.assign(rank == root ? count_of_all : 0, own);
        call.block.assign(call.counts[index(rank)], 0);
        call.request =
            world.scatter_async(blocks(call.data, call.counts), call.block, root, v_options);
        break;
      case 6: {  // one length of each pair, all blocks one after another
        call.expected = own;
        std::vector<std::size_t> given(call.counts.size());
        for (int to = 0; to < world.size(); ++to)
          given[index(to)] = call.counts[index((rank + to) % world.size())];
        call.data.assign(count_of_all, 0);
        call.in.assign(count_of_all, own);
        call.request =
            world.alltoall_async(blocks(call.in, given), blocks(call.data, given),
                                 CallOptions{.algorithm = row == 0 ? "" : "multiport_v"});
        break;
      }
      default: std::ranges::fill(call.data, own * size); call.request = world.barrier_async();
    }
    if (random.below(3) == 0)
      co_await job->until_after(rank, static_cast<std::int64_t>(random.below(20'000)));
  }
  for (int i = calls; i-- > 0;) {
    Call& call = all[index(i)];
    co_await until(call.request);
    call.request.wait();
    for (const auto* values : {&call.data, &call.block}) {
      for (const std::uint64_t value : *values) {
        if (value != call.expected)
          throw std::runtime_error(fmt::format("call {} of rank {} is wrong", i, rank));
      }
    }
  }
}

TEST_P(OnNodes, calls_under_way_at_the_same_time_do_not_mix) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SimulatedJob job{network(seed)};
    for (int rank = 0; rank < size(); ++rank)
      job.start(rank, starts_many(&job, rank, 60, seed, {1, 30, 200, 3'000}));
    job.run();
    ASSERT_EQ(job.close(), "") << "seed " << seed;
  }
}

TEST_P(OnNodes, calls_in_pieces_do_not_mix_with_each_other_nor_with_whole_ones) {
  ASSERT_GT(collectives::piece_count(40'000 * sizeof(std::uint64_t), {}), 1);
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    SimulatedJob job{network(seed)};
    for (int rank = 0; rank < size(); ++rank)
      job.start(rank, starts_many(&job, rank, 12, seed, {40'000, 50'003, 100'001, 30}));
    job.run();
    ASSERT_EQ(job.close(), "") << "seed " << seed;
  }
}

// A short reduction by a function of the program to the first rank, and a long one to the last.
Script reduces_by_a_function_first(SimulatedJob* job, int rank) {
  Communicator& world = job->world(rank);
  const int last = world.size() - 1;
  std::vector<std::uint64_t> data(1, 1);
  const auto add = [](std::uint64_t left, std::uint64_t right) { return left + right; };
  Request first = world.reduce_async(data, add, 0);
  co_await until(first);
  first.wait();
  data.assign(100'000, 1);
  Request second = world.reduce_async(data, sum, last, CallOptions{.algorithm = "lanes"});
  co_await until(second);
  second.wait();
  if (rank == last && data.back() != index(world.size())) throw std::runtime_error("it is wrong");
}

TEST_P(OnNodes, a_function_of_the_program_is_forgotten_by_the_next_reduction) {
  ASSERT_GT(collectives::piece_count(100'000 * sizeof(std::uint64_t), {}), 1);
  SimulatedJob job{network(1)};
  for (int rank = 0; rank < size(); ++rank)
    job.start(rank, reduces_by_a_function_first(&job, rank));
  job.run();
  ASSERT_EQ(job.close(), "");
}

// Broadcasts and gathers of two lengths by nobody's wish, several at a time; roots give, and run
// ahead. The rows are measured meanwhile.
Script measures(SimulatedJob* job, int rank, int calls, std::uint64_t seed,
                std::vector<Candidate>* known) {
  Communicator& world = job->world(rank);
  const auto size = static_cast<std::size_t>(world.size());
  Random random{seed * 100 + static_cast<std::uint64_t>(rank)};
  Random same{seed};
  struct Started {
    std::vector<std::uint64_t> data;
    std::vector<std::uint64_t> all;
    Request request{};
    std::uint64_t expected = 0;
  };
  std::vector<Started> window(4);
  for (int i = 0; i < calls; ++i) {
    Started& call = window[index(i) % window.size()];
    if (i >= static_cast<int>(window.size())) {
      co_await until(call.request);
      call.request.wait();
      for (const auto& values : {call.data, call.all}) {
        for (const std::uint64_t value : values) {
          if (value != call.expected)
            throw std::runtime_error(fmt::format("a call of rank {} is wrong before {}", rank, i));
        }
      }
    }
    const std::size_t length = same.below(2) == 0 ? 5 : 300;
    call.expected = static_cast<std::uint64_t>(i) + 1;
    call.all.clear();
    if (same.below(2) == 0) {
      call.data.assign(length, rank == 1 ? call.expected : 0);
      call.request = world.broadcast_async(call.data, 1);
    } else {
      call.data.assign(length, call.expected);
      if (rank == 0) call.all.assign(length * size, 0);
      call.request = world.gather_async(call.data, call.all, 0);
    }
    if (random.below(8) == 0)
      co_await job->until_after(rank, static_cast<std::int64_t>(random.below(20'000)));
  }
  for (Started& call : window) {
    co_await until(call.request);
    call.request.wait();
  }
  for (const Collective collective : {Collective::broadcast, Collective::gather}) {
    for (const std::size_t bytes : {5 * sizeof(std::uint64_t), 300 * sizeof(std::uint64_t)}) {
      const std::size_t vector = bytes * (collective == Collective::gather ? size : 1);
      for (const Candidate& row : world.explain(collective, vector)) known->push_back(row);
    }
  }
}

TEST_P(OnNodes, members_measure_the_same_row_for_what_only_moves_data) {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    SimulatedJob job{network(seed)};
    std::vector<std::vector<Candidate>> known(index(size()));
    for (int rank = 0; rank < size(); ++rank)
      job.start(rank, measures(&job, rank, 2'000, seed, &known[index(rank)]));
    job.run();
    ASSERT_EQ(job.close(), "") << "seed " << seed;
    std::uint32_t measured = 0;
    for (const auto& of_rank : known) {
      ASSERT_EQ(of_rank.size(), known[0].size());
      for (std::size_t i = 0; i < of_rank.size(); ++i) {
        EXPECT_EQ(of_rank[i].chosen, known[0][i].chosen);
        EXPECT_EQ(of_rank[i].measured_us, known[0][i].measured_us);
        measured += of_rank[i].samples > 0 ? 1U : 0U;
      }
    }
    EXPECT_GE(measured, 4U * index(size()));
  }
}

struct End {
  std::optional<ErrorDetail> error;
  Deadline time{};
};

Script reduces_until_it_fails(SimulatedJob* job, int rank, std::size_t count,
                              std::string_view algorithm, End* end) {
  std::vector<std::uint64_t> values(count);
  for (int i = 0;; ++i) {
    std::ranges::fill(values, 1);
    try {
      Request request =
          job->world(rank).allreduce_async(values, sum, CallOptions{.algorithm = algorithm});
      co_await until(request);
      request.wait();
    } catch (const Error& error) {
      end->error = error.detail();
      end->time = job->network().now();
      co_return;
    }
    for (const std::uint64_t value : values) {
      if (value != static_cast<std::uint64_t>(job->size())) throw std::runtime_error("a wrong sum");
    }
    if (i % 4 == 0) co_await job->until_after(rank, 1'000);
  }
}

TEST_P(OnNodes, a_dead_rank_is_named_on_its_own_node_and_on_others) {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    Random random{seed * 1'000'003};
    const int victim = static_cast<int>(random.below(index(size())));
    const std::size_t count = std::array<std::size_t, 4>{1, 200, 2'000, 40'000}[random.below(4)];
    SimulatedJob job{network(seed)};
    const std::int64_t alive_ns = random.between(0, 2'000'000);
    const Deadline death = job.network().now() + std::chrono::nanoseconds{alive_ns};
    job.network().at(death, [&] { job.network().kill(victim); });
    std::vector<End> ends(index(size()));
    for (int rank = 0; rank < size(); ++rank) {
      job.start(rank, reduces_until_it_fails(&job, rank, count, seed % 2 == 0 ? "leaders" : "lanes",
                                             &ends[index(rank)]));
    }
    job.run();
    ASSERT_EQ(job.close(), "") << "seed " << seed;
    for (int rank = 0; rank < size(); ++rank) {
      if (rank == victim) continue;
      const End& end = ends[index(rank)];
      ASSERT_TRUE(end.error.has_value()) << "seed " << seed << ", rank " << rank;
      EXPECT_EQ(end.error->code, ErrorCode::peer_dead) << end.error->cause;
      EXPECT_EQ(end.error->peer, victim) << end.error->cause;
      EXPECT_LE(end.time - death, std::chrono::milliseconds{32}) << "seed " << seed;
    }
  }
}

Script calls_once(SimulatedJob* job, int rank, std::size_t count, std::int64_t patience_ns,
                  End* end) {
  std::vector<std::uint64_t> values(count);
  try {
    Request request =
        job->world(rank).allreduce_async(values, sum, CallOptions{.algorithm = "lanes"});
    if (patience_ns > 0) {
      co_await job->until_after(rank, patience_ns);
      if (!Access::state(request)->done()) calls::expire(*Access::state(request));
      co_await until(request);
    } else {
      co_await until(request);
    }
    request.wait();
  } catch (const Error& error) {
    end->error = error.detail();
  }
}

TEST_P(OnNodes, different_counts_are_named_on_every_rank) {
  for (int other = 0; other < size(); ++other) {
    SimulatedJob job{network(7)};
    std::vector<End> ends(index(size()));
    for (int rank = 0; rank < size(); ++rank) {
      job.start(rank, calls_once(&job, rank, rank == other ? 200 : 201, 0, &ends[index(rank)]));
    }
    job.run();
    ASSERT_EQ(job.close(), "");
    for (const End& end : ends) {
      ASSERT_TRUE(end.error.has_value());
      EXPECT_EQ(end.error->code, ErrorCode::mismatch) << end.error->cause;
      EXPECT_NE(end.error->cause.find("allreduce(200 uint64, sum, by lanes)"), std::string::npos)
          << end.error->cause;
    }
  }
}

// The root gives every block `count` elements, this rank its own `own_count`.
Script moves_blocks(SimulatedJob* job, int rank, bool gathers, std::size_t count,
                    std::size_t own_count, End* end) {
  Communicator& world = job->world(rank);
  const std::vector<std::size_t> counts(index(world.size()), count);
  std::vector<std::uint64_t> all(rank == 0 ? count * counts.size() : 0);
  std::vector<std::uint64_t> own(own_count);
  const CallOptions options{.algorithm = "leaders_v"};
  try {
    Request request = gathers ? world.gather_async(own, blocks(all, counts), 0, options)
                              : world.scatter_async(blocks(all, counts), own, 0, options);
    co_await until(request);
    request.wait();
  } catch (const Error& error) {
    end->error = error.detail();
  }
}

TEST_P(OnNodes, different_lengths_of_a_block_are_named_and_nobody_waits) {
  // Of 512 elements the blocks of a node are just short enough to go together: with one element
  // more the two ends go different ways.
  for (const std::size_t count : {1U, 512U, 5'000U}) {
    for (const bool gathers : {true, false}) {
      for (int longer = 1; longer < size(); ++longer) {
        // What one block has more another one may have less, on its node or elsewhere, or none.
        for (int shorter = 0; shorter < size(); ++shorter) {
          if (shorter == longer) continue;
          SimulatedJob job{network(9)};
          std::vector<End> ends(index(size()));
          for (int rank = 0; rank < size(); ++rank) {
            const std::size_t own =
                count + (rank == longer ? 1 : 0) - (rank == shorter && rank != 0 ? 1 : 0);
            job.start(rank, moves_blocks(&job, rank, gathers, count, own, &ends[index(rank)]));
          }
          job.run();
          const std::string where =
              fmt::format("{} of {}, rank {} has one more, {} one less",
                          gathers ? "gather" : "scatter", count, longer, shorter);
          ASSERT_EQ(job.close(), "") << where;
          int named = 0;
          for (const End& end : ends) {
            if (!end.error) continue;
            ++named;
            EXPECT_EQ(end.error->code, ErrorCode::mismatch) << where << ": " << end.error->cause;
          }
          EXPECT_GT(named, 0) << where;
          if (!gathers) continue;
          ASSERT_TRUE(ends[0].error) << where;
          EXPECT_TRUE(ends[0].error->peer == longer || ends[0].error->peer == shorter)
              << where << ": " << ends[0].error->cause;
        }
      }
    }
  }
}

// Blocks of `count` elements between all ranks, but that this rank awaits `awaited` from one.
Script exchanges_blocks(SimulatedJob* job, int rank, std::size_t count, int from,
                        std::size_t awaited, End* end) {
  Communicator& world = job->world(rank);
  const std::vector<std::size_t> given(index(world.size()), count);
  std::vector<std::size_t> due = given;
  due[index(from)] = awaited;
  std::vector<std::uint64_t> in(count * given.size());
  std::vector<std::uint64_t> out(count * (due.size() - 1) + awaited);
  try {
    Request request = world.alltoall_async(blocks(in, given), blocks(out, due),
                                           CallOptions{.algorithm = "multiport_v"});
    co_await until(request);
    request.wait();
  } catch (const Error& error) {
    end->error = error.detail();
  }
}

TEST_P(OnNodes, different_lengths_of_a_pairs_block_are_named_and_nobody_waits) {
  struct Ends {
    std::size_t given;
    std::size_t awaited;
  };
  // 512 elements are just short enough to go by way of the ports.
  for (const auto [given, awaited] :
       std::array<Ends, 6>{{{1, 2}, {1, 0}, {0, 1}, {512, 513}, {513, 512}, {5'000, 1}}}) {
    const std::string cause =
        given == 0
            ? fmt::format("nothing came where {} bytes were due", 8 * awaited)
            : fmt::format("a step of {} bytes arrived where {} were due", 8 * given, 8 * awaited);
    for (int taker = 0; taker < size(); ++taker) {
      for (int giver = 0; giver < size(); ++giver) {
        if (giver == taker) continue;
        SimulatedJob job{network(9)};
        std::vector<End> ends(index(size()));
        for (int rank = 0; rank < size(); ++rank) {
          job.start(rank, exchanges_blocks(&job, rank, given, giver,
                                           rank == taker ? awaited : given, &ends[index(rank)]));
        }
        job.run();
        const std::string where =
            fmt::format("{} awaits {} of {}, which gives {}", taker, awaited, giver, given);
        ASSERT_EQ(job.close(), "") << where;
        int named = 0;
        for (const End& end : ends) {
          if (!end.error) continue;
          EXPECT_EQ(end.error->code, ErrorCode::mismatch) << where << ": " << end.error->cause;
          if (end.error->cause.find(cause) != std::string::npos) ++named;
        }
        EXPECT_GT(named, 0) << where;
      }
    }
  }
}

TEST_P(OnNodes, who_does_not_come_is_named_at_the_deadline) {
  for (int absent = 0; absent < size(); ++absent) {
    SimulatedJob job{network(8)};
    std::vector<End> ends(index(size()));
    const int impatient = (absent + 1) % size();
    for (int rank = 0; rank < size(); ++rank) {
      if (rank == absent) continue;
      job.start(rank,
                calls_once(&job, rank, 200, rank == impatient ? 5'000'000 : 0, &ends[index(rank)]));
    }
    job.run();
    ASSERT_EQ(job.close(), "");
    for (int rank = 0; rank < size(); ++rank) {
      if (rank == absent) continue;
      const End& end = ends[index(rank)];
      ASSERT_TRUE(end.error.has_value()) << rank;
      EXPECT_EQ(end.error->code, ErrorCode::timeout) << end.error->cause;
    }
  }
}

// One call, of which some publish and some only take.
Script calls_and_looks(SimulatedJob* job, int rank, Collective collective, bool* is_unchecked) {
  Communicator& world = job->world(rank);
  std::vector<std::uint64_t> block(4, 1);
  std::vector<std::uint64_t> all(block.size() * index(world.size()), 1);
  Request request;
  switch (collective) {
    case Collective::broadcast: request = world.broadcast_async(block, 1); break;
    case Collective::reduce: request = world.reduce_async(block, sum, 1); break;
    case Collective::gather: request = world.gather_async(block, all, 1); break;
    default: request = world.scatter_async(all, block, 1); break;
  }
  co_await until(request);
  request.wait();
  co_await job->until_after(rank, 1'000'000);
  job->context(rank).poll();
  *is_unchecked = Access::state(world)->is_unchecked();
}

TEST(a_communicator, is_looked_at_no_more_when_all_of_its_node_have_made_its_last_call) {
  for (const Collective collective :
       {Collective::broadcast, Collective::reduce, Collective::gather, Collective::scatter}) {
    SimulatedJob job{
        simulator::network_of_nodes(simulator::polled_network(3, 1), std::vector<int>{0, 0, 0})};
    std::array<bool, 3> unchecked{true, true, true};
    for (int rank = 0; rank < 3; ++rank)
      job.start(rank, calls_and_looks(&job, rank, collective, &unchecked[index(rank)]));
    job.run();
    ASSERT_EQ(job.close(), "");
    for (const bool is_unchecked : unchecked)
      EXPECT_FALSE(is_unchecked) << collectives::collective_name(collective);
  }
}

TEST(memory_of_a_communicator, whose_members_share_no_node_is_given_back) {
  SimulatedJob job{
      simulator::network_of_nodes(simulator::polled_network(4, 1), std::vector<int>{0, 0, 1, 1})};
  const auto given_bytes = [&] { return job.context(0).arena().untouched_bytes(); };
  const std::uint64_t before = given_bytes();
  {
    const Communicator one_of_each = job.communicator(0, 900, {0, 2});
    EXPECT_EQ(given_bytes(), before);
    EXPECT_EQ(one_of_each.explain(Collective::barrier, 0).back().applies, false);
    const Communicator node = job.communicator(0, 901, {0, 1});
    const std::uint64_t of_node = given_bytes() - before;
    EXPECT_GT(of_node, 0U);
    const Communicator all = job.communicator(0, 902, {0, 1, 2, 3});
    EXPECT_NEAR(static_cast<double>(given_bytes() - before), 3.0 * static_cast<double>(of_node),
                static_cast<double>(of_node) / 10);
  }
}

}  // namespace
}  // namespace qpmesh::test
