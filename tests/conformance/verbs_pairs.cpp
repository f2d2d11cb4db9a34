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
  explicit VerbsPair(Notifications notifications) {
    const Offer offer = make_offer(discover(system_), Wishes{}, "here");
    if (offer.endpoints.empty()) throw std::runtime_error{offer.why_none.cause};
    const Endpoint& here = offer.endpoints.front();
    for (const int side : {0, 1}) {
      at(transports_, side) =
          std::make_unique<VerbsTransport>(system_, log_,
                                           Settings{.host = "here",
                                                    .port = {here.device, here.port},
                                                    .peers = 1,
                                                    .receives = 512,
                                                    .link_timeout_ms = 500,
                                                    .notifications = notifications});
    }
    const PeerPaths paths{.peer_host = "here", .choices = {{here, here}}};
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

// No OrderedFlags: no device stores one part of a write after the others.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(OrderedFlags);
INSTANTIATE_TEST_SUITE_P(verbs, TransportConformance, ::testing::Values(polled, mixed, immediate),
                         factory_name);
INSTANTIATE_TEST_SUITE_P(verbs, OrderedWrites, ::testing::Values(polled, mixed), factory_name);
INSTANTIATE_TEST_SUITE_P(verbs, Immediates, ::testing::Values(mixed, immediate), factory_name);
INSTANTIATE_TEST_SUITE_P(verbs, Registrations, ::testing::Values(mixed), factory_name);
INSTANTIATE_TEST_SUITE_P(verbs, Fences, ::testing::Values(polled, immediate), factory_name);

}  // namespace qpmesh::test
