// SPDX-License-Identifier: MIT
// RDMA over the first usable device of the host, looped back, under the conformance suites: one
// process, two transports, once for each way in which a receiver may learn of writes. A program of
// its own, for hosts and guests that have a device.
#include <sched.h>

#include <array>
#include <memory>

#include "base/log.hpp"
#include "base/system.hpp"
#include "tests/conformance/transport_conformance.hpp"
#include "transport/memory.hpp"
#include "transport/verbs/connection.hpp"
#include "transport/verbs/device.hpp"
#include "transport/verbs/selection/choice.hpp"
#include "transport/verbs/transport.hpp"

namespace qpmesh::test {
namespace {

using namespace transport::verbs;
using namespace transport::verbs::selection;
using transport::Arena;
using transport::Notification;

class VerbsPair final : public ConnectedPair {
 public:
  explicit VerbsPair(Notifications notifications, std::uint32_t immediates_max = 512) {
    const Offer offer = make_offer(discover(system_), Wishes{}, "here");
    if (offer.endpoints.empty()) throw std::runtime_error{offer.why_none.cause};
    const Endpoint& here = offer.endpoints.front();
    for (const int side : {0, 1}) {
      at(transports_, side) = std::make_unique<VerbsTransport>(
          system_, log_,
          Settings{.host = "here",
                   .port = {here.device, here.port},
                   .peers = 1,
                   .immediates_max = [=](const auto&) { return immediates_max; },
                   .link_timeout_ms = 500});
      at(transports_, side)->rely_on(notifications, notifications);
    }
    const PeerPaths paths{.peer_host = "here", .theirs = notifications, .choices = {{here, here}}};
    const std::array addresses{transports_[0]->address_for(1, paths),
                               transports_[1]->address_for(0, paths)};
    for (const int side : {0, 1}) {
      at(connections_, side) =
          at(transports_, side)->connect(1 - side, addresses[static_cast<std::size_t>(1 - side)]);
      Arena& arena = at(arenas_, side);
      const std::span memory{arena.data() + arena.allocate(memory_bytes).value(), memory_bytes};
      at(ends_, side) = {
          .transport = at(transports_, side).get(),
          .connection = at(connections_, side).get(),
          .memory = memory,
          .address = at(transports_, side)->register_memory(memory, transport::RegionKind::lasting),
          .region_bytes = memory_bytes};
    }
  }

  End& end(int side) override { return at(ends_, side); }
  void pump() override {
    for (const auto& one : transports_) one->progress();
    ::sched_yield();  // a software device works on this processor
  }

 private:
  static constexpr std::size_t arena_bytes = memory_bytes + 64 * 1024;

  template <class T>
  static T& at(std::array<T, 2>& both, int side) {
    return both[static_cast<std::size_t>(side)];
  }

  base::System system_;
  base::Log log_;
  std::array<Arena, 2> arenas_{Arena::create_shared(system_, arena_bytes),
                               Arena::create_shared(system_, arena_bytes)};
  std::array<std::unique_ptr<VerbsTransport>, 2> transports_;
  std::array<std::unique_ptr<transport::Connection>, 2> connections_;
  std::array<End, 2> ends_;
};

PairFactory factory(std::string name, Notification small, Notification medium) {
  return {std::move(name), [=] {
            return std::make_unique<VerbsPair>(Notifications{small, medium, "tested"});
          }};
}

const PairFactory polled = factory("polled", Notification::poll, Notification::poll);
const PairFactory mixed = factory("mixed", Notification::poll, Notification::immediate);
const PairFactory immediate =
    factory("immediate", Notification::immediate, Notification::immediate);

}  // namespace

class Receives : public ::testing::Test {
 protected:
  static constexpr std::uint32_t bound = 40;
  // Empty writes with an immediate, and waits until side 1 has them all, or refused one.
  void post(VerbsPair& pair, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i, ++told_) {
      const transport::Write write{.target = pair.end(1).address, .immediate = told_, .tell = true};
      ASSERT_EQ(pair.end(0).connection->post({&write, 1}), transport::Post::posted);
    }
    transport::Connection& sender = *pair.end(0).connection;
    for (const auto end = base::after_ms(system_, 20'000);
         sender.completed() < told_ && sender.fault() == nullptr && system_.now() < end;)
      pair.pump();
  }
  void expect_taken(VerbsPair& pair, std::uint32_t wanted) {
    const auto end = base::after_ms(system_, 20'000);
    std::optional<std::uint32_t> taken;
    while (!(taken = pair.end(1).connection->poll_immediate()) && system_.now() < end) pair.pump();
    ASSERT_EQ(taken, wanted);
  }

  static void expect_refused(VerbsPair& pair) {
    const ErrorDetail* const fault = pair.end(0).connection->fault();
    ASSERT_NE(fault, nullptr);
    EXPECT_NE(fault->cause.find("no receive posted"), std::string::npos) << fault->cause;
    EXPECT_EQ(pair.end(1).connection->fault(), nullptr);
  }

  base::System system_;
  std::uint32_t told_ = 0;
};

TEST_F(Receives, are_none_where_both_ends_look_into_memory) {
  VerbsPair pair{{Notification::poll, Notification::poll, "tested"}, bound};
  ASSERT_NO_FATAL_FAILURE(post(pair, 1));
  EXPECT_EQ(pair.end(0).connection->completed(), 0U);
  expect_refused(pair);
}

TEST_F(Receives, are_always_there_for_as_many_immediates_as_may_be_under_way) {
  VerbsPair pair{{Notification::poll, Notification::immediate, "tested"}, bound};
  ASSERT_NO_FATAL_FAILURE(post(pair, bound));
  ASSERT_EQ(pair.end(0).connection->completed(), bound) << "while nobody took any";
  // Whatever has not gone back of those that were taken.
  for (std::uint32_t taken = 0; taken < 200; ++taken) {
    ASSERT_NO_FATAL_FAILURE(expect_taken(pair, taken));
    ASSERT_NO_FATAL_FAILURE(post(pair, 1));
    ASSERT_EQ(pair.end(0).connection->completed(), told_);
  }
  EXPECT_EQ(pair.end(0).connection->fault(), nullptr);
}

TEST_F(Receives, are_missed_by_a_peer_that_sends_more_whose_link_fails) {
  VerbsPair pair{{Notification::poll, Notification::immediate, "tested"}, bound};
  const std::uint32_t posted = bound + receives_not_back_max;
  ASSERT_NO_FATAL_FAILURE(post(pair, posted));
  ASSERT_EQ(pair.end(0).connection->completed(), posted);
  ASSERT_NO_FATAL_FAILURE(post(pair, 1));
  EXPECT_EQ(pair.end(0).connection->completed(), posted);
  expect_refused(pair);
}

// No OrderedFlags: no device stores one part of a write after the others.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(OrderedFlags);
INSTANTIATE_TEST_SUITE_P(verbs, TransportConformance, ::testing::Values(polled, mixed, immediate),
                         factory_name);
INSTANTIATE_TEST_SUITE_P(verbs, OrderedWrites, ::testing::Values(polled, mixed), factory_name);
INSTANTIATE_TEST_SUITE_P(verbs, Immediates, ::testing::Values(mixed, immediate), factory_name);
INSTANTIATE_TEST_SUITE_P(verbs, Registrations, ::testing::Values(mixed), factory_name);
INSTANTIATE_TEST_SUITE_P(verbs, Fences, ::testing::Values(polled, immediate), factory_name);

}  // namespace qpmesh::test
