// The simulator itself: that it is deterministic, that it keeps what it promises, and that it bites where it promises nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "qpmesh/error.hpp"
#include "simulation/mesh.hpp"

namespace qpmesh::test {
namespace {

using namespace transport::simulated;
using base::ControlEvent;
using transport::Post;
using transport::RemoteAddress;
using transport::Write;

NetworkConfig calm(NetworkConfig config) {
  config.busy_probability = 0;
  config.retransmission_probability = 0;
  return config;
}

std::vector<std::byte> filled(std::size_t bytes, int value) { return std::vector<std::byte>(bytes, static_cast<std::byte>(value)); }

Post post(Mesh& mesh, int from, int to, const Write& write) { return mesh.connection(from, to).post({&write, 1}); }

std::size_t count(const std::vector<std::byte>& memory, int value) {
  return static_cast<std::size_t>(std::count(memory.begin(), memory.end(), static_cast<std::byte>(value)));
}

// Rank 0 writes blocks of one repeated byte, each once the one before was seen at rank 1 (whose step looks at the last byte only),
// and counts the times when the last byte was new and another one was not: a protocol that no unordered network may carry.
std::uint64_t torn_blocks(const NetworkConfig& config, int blocks, std::uint64_t* trace = nullptr) {
  constexpr std::size_t block_bytes = 64;
  Mesh mesh{config};
  auto source = filled(block_bytes, 0);
  int sent = 0;
  int seen = 0;
  std::uint64_t torn = 0;
  mesh.network.set_step(0, [&] {
    mesh[0].transport->progress();
    if (sent == blocks || sent != seen || mesh.connection(0, 1).completed() != static_cast<std::uint64_t>(sent)) return false;
    std::fill(source.begin(), source.end(), static_cast<std::byte>(sent + 1));
    const Write write{.head = source, .target = mesh.address(1, 0), .flag_offset = block_bytes - 4, .tell = true};
    if (mesh.connection(0, 1).post({&write, 1}) != Post::posted) return false;
    ++sent;
    return true;
  });
  mesh.network.set_step(1, [&] {
    const std::span block{mesh[1].memory.data(), block_bytes};
    const auto newest = static_cast<std::byte>(seen + 1);
    if (seen == blocks || block.back() != newest) return false;
    torn += std::all_of(block.begin(), block.end(), [&](std::byte value) { return value == newest; }) ? 0U : 1U;
    ++seen;
    return true;
  });
  EXPECT_TRUE(mesh.network.run_until([&] { return seen == blocks; }, mesh.network.after_ms(60'000))) << mesh.network.describe();
  if (trace != nullptr) *trace = mesh.network.trace_hash();
  return torn;
}

TEST(simulated_network, catches_a_protocol_that_trusts_the_last_byte) {
  EXPECT_GT(torn_blocks(polled_network(2, 7), 200), 20U);
  EXPECT_GT(torn_blocks(immediate_network(2, 7), 200), 20U);
}

TEST(simulated_network, never_tears_under_an_ordered_flag) { EXPECT_EQ(torn_blocks(shared_memory_network(2, 7), 200), 0U); }

TEST(simulated_network, never_tears_where_bytes_come_in_order) {
  auto config = polled_network(2, 7);
  config.bytes_in_order = true;
  EXPECT_EQ(torn_blocks(config, 200), 0U);
}

TEST(simulated_network, connects_a_rank_to_itself) {
  Network network{calm(polled_network(1, 1))};
  auto transport = network.make_transport(0);
  std::vector<std::byte> memory(100);
  const std::uint32_t region = transport->register_memory(memory);
  const auto connection = transport->connect(0, transport->address_for(0));
  const auto source = filled(10, 1);
  ASSERT_EQ(connection->post(std::array{Write{.head = source, .target = {region, 5}, .immediate = 3}}), Post::posted);
  network.run_for(1'000'000);
  transport->progress();
  EXPECT_EQ(connection->take_arrival(), 3U);
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
    if (noticed == Deadline{} && mesh.network.system(1).now() >= wanted) noticed = mesh.network.now();
    return false;
  });
  ASSERT_TRUE(mesh.network.run_until([&] { return noticed != Deadline{}; }, begin + std::chrono::minutes{11}));
  EXPECT_LE(noticed - wanted, std::chrono::milliseconds{100});
  EXPECT_LT(mesh.network.steps(), 10'000U);
  EXPECT_EQ(mesh.network.events(), 0U);
}

TEST(simulated_network, stops_at_the_deadline_and_describes_what_is_outstanding) {
  Mesh mesh{calm(polled_network(2, 1))};
  const auto source = filled(1000, 1);
  ASSERT_EQ(post(mesh, 0, 1, {.head = source, .target = mesh.address(1, 0), .immediate = 5}), Post::posted);
  const Deadline deadline = mesh.network.after_ms(5);
  EXPECT_FALSE(mesh.network.run_until([] { return false; }, deadline));
  EXPECT_EQ(mesh.network.now(), deadline);
  EXPECT_NE(mesh.network.describe().find("1 -> 0: 0 writes posted, 0 in flight, 0 told complete, 1 immediates not taken"),
            std::string::npos)
      << mesh.network.describe();
}

TEST(simulated_network, gives_up_on_a_rank_that_reports_work_for_ever) {
  Mesh mesh{polled_network(2, 1)};
  mesh.network.set_step(1, [] { return true; });
  EXPECT_FALSE(mesh.network.run_until([] { return false; }, mesh.network.after_ms(1'000)));
  EXPECT_NE(mesh.network.describe().find("rank 1 reported work 100000 times"), std::string::npos) << mesh.network.describe();
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
  EXPECT_LT(mesh.network.now() - begin, std::chrono::milliseconds{100});  // ticks alone would take longer
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
    ASSERT_EQ(post(mesh, 0, 1, {.head = source, .target = mesh.address(1, 0), .tell = true}), Post::posted);
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
      const Write write{.head = source, .target = mesh.address(1, 0), .flag_offset = 4,
                        .immediate = flag_tells ? std::nullopt : std::optional<std::uint32_t>{1}};
      ASSERT_EQ(mesh.connection(0, 1).post({&write, 1}), Post::posted);
      const auto told = [&] {
        mesh[1].transport->progress();
        return flag_tells ? mesh[1].memory[4] == std::byte{1} : mesh.connection(1, 0).take_arrival().has_value();
      };
      ASSERT_TRUE(mesh.network.run_until(told, mesh.network.after_ms(10)));
      ASSERT_EQ(count(mesh[1].memory, 1), source.size());
      std::fill(mesh[1].memory.begin(), mesh[1].memory.end(), std::byte{0});
      mesh.network.run_for(1'000'000);
      ASSERT_EQ(count(mesh[1].memory, 1), 0U) << "seed " << config.seed;
    }
  }
}

TEST(simulated_network, fails_the_link_of_a_write_outside_the_region_with_the_numbers) {
  Mesh mesh{calm(polled_network(2, 1)), 4096};
  const auto source = filled(100, 1);
  ASSERT_EQ(post(mesh, 0, 1, {.head = source, .target = mesh.address(1, 4000)}), Post::posted);
  mesh.network.run_for(1'000'000);
  const transport::Fault* const fault = mesh.connection(0, 1).fault();
  ASSERT_NE(fault, nullptr);
  EXPECT_EQ(fault->peer, 1);
  EXPECT_EQ(fault->system_error, EFAULT);
  EXPECT_NE(fault->detail.find("100 bytes at offset 4000 is outside region"), std::string::npos) << fault->detail;
  EXPECT_NE(fault->detail.find("of rank 1, which has 4096 bytes"), std::string::npos) << fault->detail;
  EXPECT_EQ(count(mesh[1].memory, 1), 0U);
  EXPECT_EQ(post(mesh, 0, 1, {.head = source, .target = mesh.address(1, 0)}), Post::failed);
  EXPECT_EQ(post(mesh, 1, 0, {.head = source, .target = mesh.address(0, 0)}), Post::failed);
}

TEST(simulated_network, fails_the_link_of_a_write_to_memory_that_was_closed) {
  Mesh mesh{calm(polled_network(2, 1))};
  const auto source = filled(100, 1);
  const RemoteAddress target = mesh.address(1, 0);
  mesh[1].transport->deregister_memory(mesh[1].region);
  ASSERT_EQ(post(mesh, 0, 1, {.head = source, .target = target}), Post::posted);
  mesh.network.run_for(1'000'000);
  ASSERT_NE(mesh.connection(0, 1).fault(), nullptr);
  EXPECT_NE(mesh.connection(0, 1).fault()->detail.find("is not registered there"), std::string::npos);
  EXPECT_EQ(count(mesh[1].memory, 1), 0U);
}

TEST(simulated_network, loses_a_suffix_of_what_was_on_its_way_when_a_link_fails) {
  bool some_landed = false;
  bool some_lost = false;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Mesh mesh{calm(polled_network(3, seed))};
    const auto source = filled(100, 1);
    for (int i = 0; i < 10; ++i) {
      const auto offset = static_cast<std::uint64_t>(i) * 100;
      ASSERT_EQ(post(mesh, 0, 1, {.head = source, .target = mesh.address(1, offset), .tell = true}), Post::posted);
    }
    mesh.network.fail_link(1, 0);
    const std::size_t landed = count(mesh[1].memory, 1);
    some_landed |= landed > 0;
    some_lost |= landed < 1000;
    mesh.network.run_for(10'000'000);
    mesh[0].transport->progress();
    EXPECT_EQ(count(mesh[1].memory, 1), landed);
    const auto whole = static_cast<std::ptrdiff_t>(landed / 100 * 100);
    EXPECT_TRUE(std::all_of(mesh[1].memory.begin(), mesh[1].memory.begin() + whole, [](auto b) { return b == std::byte{1}; }));
    EXPECT_EQ(mesh.connection(0, 1).completed(), 0U);
    ASSERT_NE(mesh.connection(0, 1).fault(), nullptr);
    ASSERT_NE(mesh.connection(1, 0).fault(), nullptr);
    EXPECT_EQ(mesh.connection(1, 0).fault()->peer, 0);
    EXPECT_EQ(mesh.connection(0, 2).fault(), nullptr);
  }
  EXPECT_TRUE(some_landed);
  EXPECT_TRUE(some_lost);
}

TEST(simulated_network, tells_every_survivor_of_a_killed_rank_once_after_all_it_had_sent) {
  Mesh mesh{calm(polled_network(4, 5))};
  const auto frame = filled(10, 1);
  int steps_of_dead = 0;
  mesh.network.set_step(2, [&] { return ++steps_of_dead < 0; });
  for (const int peer : {0, 1, 3}) {
    for (int i = 0; i < 5; ++i) mesh[2].control->send(peer, frame);
  }
  mesh.network.run_for(1'000);
  const int steps_before = steps_of_dead;
  mesh.network.kill(2);
  mesh[2] = MeshRank{};  // its memory goes with it
  const auto source = filled(1000, 1);
  EXPECT_EQ(post(mesh, 0, 2, {.head = source, .target = {1, 0}, .tell = true}), Post::posted);  // nobody has noticed yet
  mesh.network.run_for(100'000'000);
  EXPECT_EQ(steps_of_dead, steps_before);
  for (const int peer : {0, 1, 3}) {
    const auto events = mesh[peer].control->poll();
    ASSERT_EQ(events.size(), 6U);
    for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(events[i].kind, ControlEvent::Kind::frame);
    EXPECT_EQ(events[5].kind, ControlEvent::Kind::death);
    EXPECT_EQ(events[5].peer, 2);
    EXPECT_EQ(events[5].detail, "rank 2 was killed");
    ASSERT_NE(mesh.connection(peer, 2).fault(), nullptr);
    EXPECT_EQ(mesh.connection(peer, 2).fault()->system_error, ETIMEDOUT);
    mesh[peer].control->send(2, frame);  // dropped
  }
  mesh.network.run_for(100'000'000);
  EXPECT_TRUE(mesh[0].control->poll().empty());
}

TEST(simulated_network, does_not_step_a_frozen_rank_but_goes_on_writing_its_memory) {
  Mesh mesh{calm(polled_network(2, 1))};
  int steps = 0;
  mesh.network.set_step(1, [&] { return ++steps < 0; });
  mesh.network.freeze(1);
  const auto source = filled(100, 1);
  ASSERT_EQ(post(mesh, 0, 1, {.head = source, .target = mesh.address(1, 0)}), Post::posted);
  mesh.network.run_for(5'000'000);
  EXPECT_EQ(steps, 0);
  EXPECT_EQ(count(mesh[1].memory, 1), 100U);
  mesh.network.thaw(1);
  mesh.network.run_for(10'000);
  EXPECT_GT(steps, 0);
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

TEST(simulated_control_channel, delivers_frames_in_order_and_a_goodbye_last) {
  Mesh mesh{polled_network(3, 9)};
  for (int i = 0; i < 50; ++i) {
    const auto frame = filled(1, i);
    mesh[0].control->send(1, frame);
  }
  mesh[0].control->say_goodbye(mesh.network.after_ms(1));
  mesh[0].control->send(1, filled(1, 99));
  mesh[0].control.reset();
  mesh.network.run_for(100'000'000);
  const auto events = mesh[1].control->poll();
  ASSERT_EQ(events.size(), 51U);
  for (std::size_t i = 0; i < 50; ++i) EXPECT_EQ(events[i].bytes, filled(1, static_cast<int>(i)));
  EXPECT_EQ(events.back().kind, ControlEvent::Kind::goodbye);
  ASSERT_EQ(mesh[2].control->poll().size(), 1U);
}

TEST(simulated_control_channel, reports_a_channel_that_closes_without_a_goodbye_as_a_death) {
  Mesh mesh{polled_network(2, 9)};
  mesh[0].control.reset();
  mesh.network.run_for(100'000'000);
  const auto events = mesh[1].control->poll();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].kind, ControlEvent::Kind::death);
  EXPECT_EQ(events[0].detail, "rank 0 ended without a goodbye");
}

TEST(simulated_transport, refuses_an_address_that_is_not_the_peers) {
  Network network{polled_network(3, 1)};
  auto transport = network.make_transport(0);
  auto other = network.make_transport(2);
  try {
    transport->connect(1, other->address_for(0));
    FAIL() << "connected to the wrong rank";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_config);
    EXPECT_EQ(error.peer(), 1);
    EXPECT_EQ(error.operation(), "connect");
    EXPECT_EQ(error.cause(), "8 bytes are not an address of rank 1 for rank 0");
  }
}

TEST(simulated_transport, names_memory_by_the_largest_of_its_regions) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {  // keys are random: their order must not decide
    Network network{polled_network(1, seed)};
    auto transport = network.make_transport(0);
    std::vector<std::byte> memory(1000);
    const std::span<std::byte> all{memory};
    const std::uint32_t small = transport->register_memory(all.subspan(100, 100));
    const std::uint32_t large = transport->register_memory(all);
    EXPECT_EQ(transport->address_of(all.subspan(150, 10))->region, large);
    EXPECT_EQ(transport->address_of(all.subspan(150, 10))->offset, 150U);
    transport->deregister_memory(large);
    EXPECT_EQ(transport->address_of(all.subspan(150, 10))->region, small);
    EXPECT_EQ(transport->address_of(all.subspan(150, 10))->offset, 50U);
    EXPECT_FALSE(transport->address_of(all.subspan(150, 51)).has_value());
  }
}

TEST(simulated_transport, fails_a_registration_where_the_fail_points_say_so) {
  Network network{polled_network(1, 1)};
  auto transport = network.make_transport(0);
  network.system(0).fail_points().fail_call(0, ENOMEM);
  std::array<std::byte, 10> memory{};
  try {
    transport->register_memory(memory);
    FAIL() << "registered";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::no_resource);
    EXPECT_EQ(error.system_error(), ENOMEM);
    EXPECT_EQ(error.cause(), "10 bytes could not be registered");
  }
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
  EXPECT_TRUE(mesh.network.run_until([&] { return mesh[0].memory[0] == std::byte{1}; }, mesh.network.after_ms(1'000)));
  EXPECT_LT(mesh.network.steps(), 10'000U);
}

}  // namespace
}  // namespace qpmesh::test
