// SPDX-License-Identifier: MIT
// The simulator itself: that it is deterministic, that it keeps what it promises,
// and that it bites where it promises nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>

#include "tests/simulation/mesh.hpp"

namespace qpmesh::test {
namespace {

using namespace simulator;
using transport::Post;
using transport::Write;

// Rank 0 writes blocks of one repeated byte, each once the one before was seen at rank 1 (whose
// step looks at the last byte only), and counts the times when the last byte was new and another
// one was not: a protocol that no unordered network may carry.
std::uint64_t torn_blocks(const NetworkConfig& config, int blocks, std::uint64_t* trace = nullptr) {
  constexpr std::size_t block_bytes = 64;
  Mesh mesh{config};
  auto source = filled(block_bytes, 0);
  int sent = 0;
  int seen = 0;
  std::uint64_t torn = 0;
  mesh.network.set_step(0, [&] {
    mesh[0].transport->progress();
    if (sent == blocks || sent != seen ||
        mesh.connection(0, 1).completed() != static_cast<std::uint64_t>(sent))
      return false;
    std::fill(source.begin(), source.end(), static_cast<std::byte>(sent + 1));
    const Write write{
        .head = source, .target = mesh.address(1, 0), .flag_offset = block_bytes - 4, .tell = true};
    if (mesh.connection(0, 1).post({&write, 1}) != Post::posted) return false;
    ++sent;
    return true;
  });
  mesh.network.set_step(1, [&] {
    const std::span block{mesh[1].memory.data(), block_bytes};
    const auto newest = static_cast<std::byte>(seen + 1);
    if (seen == blocks || block.back() != newest) return false;
    torn +=
        std::all_of(block.begin(), block.end(), [&](std::byte value) { return value == newest; })
            ? 0U
            : 1U;
    ++seen;
    return true;
  });
  EXPECT_TRUE(mesh.network.run_until([&] { return seen == blocks; }, mesh.network.after_ms(60'000)))
      << mesh.network.describe();
  if (trace != nullptr) *trace = mesh.network.trace_hash();
  return torn;
}

TEST(simulated_network, catches_a_protocol_that_trusts_the_last_byte) {
  EXPECT_GT(torn_blocks(polled_network(2, 7), 200), 20U);
  EXPECT_GT(torn_blocks(immediate_network(2, 7), 200), 20U);
}

TEST(simulated_network, never_tears_under_an_ordered_flag) {
  EXPECT_EQ(torn_blocks(shared_memory_network(2, 7), 200), 0U);
}

TEST(simulated_network, never_tears_where_bytes_come_in_order) {
  auto config = polled_network(2, 7);
  config.bytes_in_order = true;
  EXPECT_EQ(torn_blocks(config, 200), 0U);
}

TEST(simulated_network, connects_a_rank_to_itself) {
  Network network{calm(polled_network(1, 1))};
  auto transport = network.make_transport(0);
  std::vector<std::byte> memory(100);
  const std::uint32_t region =
      transport->register_memory(memory, transport::RegionKind::lasting).region;
  const auto connection = transport->connect(0, transport->address_for(0));
  const auto source = filled(10, 1);
  ASSERT_EQ(
      connection->post(std::array{Write{.head = source, .target = {region, 5}, .immediate = 3}}),
      Post::posted);
  network.run_for(1'000'000);
  transport->progress();
  EXPECT_EQ(connection->poll_immediate(), 3U);
  EXPECT_EQ(count(memory, 1), 10U);
}

TEST(simulated_network, repeats_its_trace_for_a_seed_and_differs_for_another) {
  std::array<std::uint64_t, 3> traces{};
  torn_blocks(polled_network(2, 1), 50, &traces[0]);
  torn_blocks(polled_network(2, 1), 50, &traces[1]);
  torn_blocks(polled_network(2, 2), 50, &traces[2]);
  EXPECT_EQ(traces[0], traces[1]);
  EXPECT_NE(traces[0], traces[2]);
}

TEST(simulated_network, passes_time_without_events_and_reaches_a_far_deadline_cheaply) {
  Mesh mesh{polled_network(3, 1)};
  const Deadline begin = mesh.network.now();
  const Deadline wanted = begin + std::chrono::minutes{10};
  Deadline noticed{};
  mesh.network.set_step(1, [&] {
    if (noticed == Deadline{} && mesh.network.system(1).now() >= wanted)
      noticed = mesh.network.now();
    return false;
  });
  ASSERT_TRUE(mesh.network.run_until([&] { return noticed != Deadline{}; },
                                     begin + std::chrono::minutes{11}));
  EXPECT_LE(noticed - wanted, std::chrono::milliseconds{100});
  EXPECT_LT(mesh.network.steps(), 10'000U);
  EXPECT_EQ(mesh.network.events(), 0U);
}

TEST(simulated_network, stops_at_the_deadline_and_describes_what_is_outstanding) {
  Mesh mesh{calm(polled_network(2, 1))};
  const auto source = filled(1000, 1);
  ASSERT_EQ(post(mesh, 0, 1, {.head = source, .target = mesh.address(1, 0), .immediate = 5}),
            Post::posted);
  const Deadline deadline = mesh.network.after_ms(5);
  EXPECT_FALSE(mesh.network.run_until([] { return false; }, deadline));
  EXPECT_EQ(mesh.network.now(), deadline);
  EXPECT_NE(mesh.network.describe().find(
                "1 -> 0: 0 writes posted, 0 in flight, 0 told complete, 1 immediates not taken"),
            std::string::npos)
      << mesh.network.describe();
}

TEST(simulated_network, gives_up_on_a_rank_that_reports_work_for_ever) {
  Mesh mesh{polled_network(2, 1)};
  mesh.network.set_step(1, [] { return true; });
  EXPECT_FALSE(mesh.network.run_until([] { return false; }, mesh.network.after_ms(1'000)));
  EXPECT_NE(mesh.network.describe().find("rank 1 reported work 100000 times"), std::string::npos)
      << mesh.network.describe();
}

TEST(simulated_network, steps_a_rank_again_after_busy) {
  auto config = polled_network(2, 3);
  config.busy_probability = 0.5;
  Mesh mesh{config};
  const auto source = filled(64, 1);
  int posted = 0;
  int busy = 0;
  mesh.network.set_step(0, [&] {
    while (posted < 1000) {
      if (post(mesh, 0, 1, {.head = source, .target = mesh.address(1, 0)}) == Post::busy) {
        ++busy;
        return false;
      }
      ++posted;
    }
    return false;
  });
  const Deadline begin = mesh.network.now();
  EXPECT_TRUE(mesh.network.run_until([&] { return posted == 1000; }, mesh.network.after_ms(1'000)));
  EXPECT_GT(busy, 300);
  EXPECT_LT(mesh.network.now() - begin,
            std::chrono::milliseconds{100});  // ticks alone would take longer
}

TEST(simulated_network, reads_a_source_that_is_not_inline_when_it_places_it) {
  Mesh mesh{calm(polled_network(2, 1))};
  auto source = filled(4096, 1);
  ASSERT_EQ(post(mesh, 0, 1, {.head = source, .target = mesh.address(1, 0)}), Post::posted);
  std::fill(source.begin(), source.end(), std::byte{2});  // too early: what a device would send
  mesh.network.run_for(1'000'000);
  EXPECT_EQ(count(mesh[1].memory, 2), 4096U);
}

TEST(simulated_network, retransmits_from_the_source_before_the_completion) {
  auto config = calm(polled_network(2, 1));
  config.retransmission_probability = 1;
  std::size_t rewritten = 0;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    config.seed = seed;
    Mesh mesh{config};
    const auto source = filled(300, 1);
    bool cleared = false;
    mesh.network.set_step(1, [&] {
      if (cleared || count(mesh[1].memory, 1) != source.size()) return false;
      std::fill(mesh[1].memory.begin(), mesh[1].memory.end(), std::byte{0});
      return cleared = true;
    });
    ASSERT_EQ(post(mesh, 0, 1, {.head = source, .target = mesh.address(1, 0), .tell = true}),
              Post::posted);
    std::size_t at_completion = 0;
    mesh.network.run_until(
        [&] {
          mesh[0].transport->progress();
          at_completion = count(mesh[1].memory, 1);
          return mesh.connection(0, 1).completed() == 1;
        },
        mesh.network.after_ms(10));
    mesh.network.run_for(1'000'000);
    EXPECT_TRUE(cleared);
    EXPECT_EQ(count(mesh[1].memory, 1), at_completion);
    rewritten += at_completion == source.size() ? 1U : 0U;
  }
  EXPECT_GT(rewritten, 10U);
  EXPECT_LT(rewritten, 50U);  // some come too late: the completion was there first
}

// After an immediate or an ordered flag the memory is the receiver's again.
TEST(simulated_network, retransmits_nothing_that_the_receiver_was_told_to_be_final) {
  for (auto config : {polled_network(2, 1), immediate_network(2, 1), shared_memory_network(2, 1)}) {
    config.busy_probability = 0;
    config.retransmission_probability = 1;
    for (config.seed = 1; config.seed <= 50; ++config.seed) {
      Mesh mesh{config};
      auto source = filled(300, 1);
      const bool flag_tells = config.ordered_flag;
      const Write write{.head = source,
                        .target = mesh.address(1, 0),
                        .flag_offset = 4,
                        .immediate = flag_tells ? std::nullopt : std::optional<std::uint32_t>{1}};
      ASSERT_EQ(mesh.connection(0, 1).post({&write, 1}), Post::posted);
      const auto told = [&] {
        mesh[1].transport->progress();
        return flag_tells ? mesh[1].memory[4] == std::byte{1}
                          : mesh.connection(1, 0).poll_immediate().has_value();
      };
      ASSERT_TRUE(mesh.network.run_until(told, mesh.network.after_ms(10)));
      ASSERT_EQ(count(mesh[1].memory, 1), source.size());
      std::fill(mesh[1].memory.begin(), mesh[1].memory.end(), std::byte{0});
      mesh.network.run_for(1'000'000);
      ASSERT_EQ(count(mesh[1].memory, 1), 0U) << "seed " << config.seed;
    }
  }
}

TEST(simulated_network, steps_those_who_load_a_ranks_memory_after_it_did_something) {
  Mesh mesh{calm(shared_memory_network(2, 1))};
  const std::byte* const theirs = mesh.connection(0, 1).load(mesh.address(1, 8), 1);
  ASSERT_EQ(theirs, mesh[1].memory.data() + 8);
  bool published = false;
  mesh.network.set_step(1, [&] {
    if (published) return false;
    mesh[1].memory[8] = std::byte{1};
    return published = true;
  });
  bool seen = false;
  mesh.network.set_step(0, [&] { return seen = *theirs == std::byte{1}, false; });
  const Deadline begin = mesh.network.now();
  EXPECT_TRUE(mesh.network.run_until([&] { return seen; }, mesh.network.after_ms(1'000)));
  EXPECT_LT(mesh.network.now() - begin, std::chrono::microseconds{10});
}

TEST(simulated_network, carries_a_token_around_three_hundred_ranks) {
  constexpr int rank_count = 300;
  Mesh mesh{polled_network(rank_count, 1), 64};
  std::vector<std::byte> token = filled(1, 1);
  std::vector<char> sent(rank_count, 0);
  const auto pass = [&](int rank) {
    const int next = (rank + 1) % rank_count;
    const Write write{.head = token, .target = mesh.address(next, 0)};
    return mesh.connection(rank, next).post({&write, 1}) == Post::posted;
  };
  for (int rank = 0; rank < rank_count; ++rank) {
    mesh.network.set_step(rank, [&, rank] {
      char& done = sent[static_cast<std::size_t>(rank)];
      if (done != 0 || (rank != 0 && mesh[rank].memory[0] == std::byte{0})) return false;
      done = pass(rank) ? 1 : 0;
      return done != 0;
    });
  }
  EXPECT_TRUE(mesh.network.run_until([&] { return mesh[0].memory[0] == std::byte{1}; },
                                     mesh.network.after_ms(1'000)));
  EXPECT_LT(mesh.network.steps(), 10'000U);
}

}  // namespace
}  // namespace qpmesh::test
