// SPDX-License-Identifier: MIT
// What the simulated network does when links fail, ranks die or stop, and callers are
// wrong; and its control channel and set-up.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "qpmesh/error.hpp"
#include "tests/simulation/mesh.hpp"

namespace qpmesh::test {
namespace {

using namespace simulator;
using base::ControlEvent;
using transport::Post;
using transport::RemoteAddress;

TEST(simulated_faults, fails_the_link_of_a_write_outside_the_region_with_the_numbers) {
  Mesh mesh{calm(polled_network(2, 1)), 4096};
  const auto source = filled(100, 1);
  ASSERT_EQ(post(mesh, 0, 1, {.head = source, .target = mesh.address(1, 4000)}), Post::posted);
  mesh.network.run_for(1'000'000);
  const ErrorDetail* const fault = mesh.connection(0, 1).fault();
  ASSERT_NE(fault, nullptr);
  EXPECT_EQ(fault->peer, 1);
  EXPECT_EQ(fault->system_error, EFAULT);
  EXPECT_NE(fault->cause.find("100 bytes at offset 4000 is outside region"), std::string::npos)
      << fault->cause;
  EXPECT_NE(fault->cause.find("of rank 1, which has 4096 bytes"), std::string::npos)
      << fault->cause;
  EXPECT_EQ(count(mesh[1].memory, 1), 0U);
  EXPECT_EQ(post(mesh, 0, 1, {.head = source, .target = mesh.address(1, 0)}), Post::failed);
  EXPECT_EQ(post(mesh, 1, 0, {.head = source, .target = mesh.address(0, 0)}), Post::failed);
}

TEST(simulated_faults, fails_the_link_of_a_write_to_memory_that_was_closed) {
  Mesh mesh{calm(polled_network(2, 1))};
  const auto source = filled(100, 1);
  const RemoteAddress target = mesh.address(1, 0);
  mesh[1].transport->deregister_memory(mesh[1].region);
  ASSERT_EQ(post(mesh, 0, 1, {.head = source, .target = target}), Post::posted);
  mesh.network.run_for(1'000'000);
  ASSERT_NE(mesh.connection(0, 1).fault(), nullptr);
  EXPECT_NE(mesh.connection(0, 1).fault()->cause.find("is not registered at rank 1"),
            std::string::npos);
  EXPECT_EQ(count(mesh[1].memory, 1), 0U);
}

TEST(simulated_faults, loses_a_suffix_of_what_was_on_its_way_when_a_link_fails) {
  bool some_landed = false;
  bool some_lost = false;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Mesh mesh{calm(polled_network(3, seed))};
    const auto source = filled(100, 1);
    for (int i = 0; i < 10; ++i) {
      const auto offset = static_cast<std::uint64_t>(i) * 100;
      ASSERT_EQ(post(mesh, 0, 1, {.head = source, .target = mesh.address(1, offset), .tell = true}),
                Post::posted);
    }
    mesh.network.fail_link(1, 0);
    const std::size_t landed = count(mesh[1].memory, 1);
    some_landed |= landed > 0;
    some_lost |= landed < 1000;
    mesh.network.run_for(10'000'000);
    mesh[0].transport->progress();
    EXPECT_EQ(count(mesh[1].memory, 1), landed);
    const auto whole = static_cast<std::ptrdiff_t>(landed / 100 * 100);
    EXPECT_TRUE(std::all_of(mesh[1].memory.begin(), mesh[1].memory.begin() + whole,
                            [](auto b) { return b == std::byte{1}; }));
    EXPECT_EQ(mesh.connection(0, 1).completed(), 0U);
    ASSERT_NE(mesh.connection(0, 1).fault(), nullptr);
    ASSERT_NE(mesh.connection(1, 0).fault(), nullptr);
    EXPECT_EQ(mesh.connection(1, 0).fault()->peer, 0);
    EXPECT_EQ(mesh.connection(0, 2).fault(), nullptr);
  }
  EXPECT_TRUE(some_landed);
  EXPECT_TRUE(some_lost);
}

TEST(simulated_faults, tells_every_survivor_of_a_killed_rank_once_after_all_it_had_sent) {
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
  EXPECT_EQ(post(mesh, 0, 2, {.head = source, .target = {1, 0}, .tell = true}),
            Post::posted);  // nobody has noticed yet
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

TEST(simulated_faults, does_not_step_a_frozen_rank_but_goes_on_writing_its_memory) {
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

TEST(simulated_transport, names_lasting_memory_and_never_what_is_open_for_one_message) {
  Network network{polled_network(1, 1)};
  auto transport = network.make_transport(0);
  std::vector<std::byte> memory(1000);
  const std::span<std::byte> all{memory};
  transport->register_memory(all, transport::RegionKind::target);
  transport->register_memory(all, transport::RegionKind::source);
  EXPECT_FALSE(transport->address_of(all.subspan(150, 10)).has_value());
  const std::uint32_t lasting =
      transport->register_memory(all.subspan(100, 100), transport::RegionKind::lasting).region;
  EXPECT_EQ(transport->address_of(all.subspan(150, 10))->region, lasting);
  EXPECT_EQ(transport->address_of(all.subspan(150, 10))->offset, 50U);
  EXPECT_FALSE(transport->address_of(all.subspan(150, 51)).has_value());
  transport->deregister_memory(lasting);
  EXPECT_FALSE(transport->address_of(all.subspan(150, 10)).has_value());
}

TEST(simulated_transport, fails_a_registration_where_the_fail_points_say_so) {
  Network network{polled_network(1, 1)};
  auto transport = network.make_transport(0);
  network.system(0).fail_points().fail_call(0, ENOMEM);
  std::array<std::byte, 10> memory{};
  try {
    transport->register_memory(memory, transport::RegionKind::lasting);
    FAIL() << "registered";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::no_resource);
    EXPECT_EQ(error.system_error(), ENOMEM);
    EXPECT_EQ(error.cause(), "10 bytes could not be registered");
  }
}

}  // namespace
}  // namespace qpmesh::test
