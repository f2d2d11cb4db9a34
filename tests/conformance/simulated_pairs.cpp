// SPDX-License-Identifier: MIT
// The simulated network in each of its natures, under the conformance suites.
#include <array>
#include <utility>

#include "tests/conformance/transport_conformance.hpp"
#include "tests/simulation/mesh.hpp"
#include "transport/rails.hpp"

namespace qpmesh::test {
namespace {

using namespace simulator;

class SimulatedPair final : public ConnectedPair {
 public:
  explicit SimulatedPair(const NetworkConfig& config) : mesh_{config, memory_bytes} {
    for (const int side : {0, 1}) {
      ends_[static_cast<std::size_t>(side)] = {
          mesh_[side].transport.get(), &mesh_.connection(side, 1 - side), mesh_[side].memory,
          mesh_.address(side, 0), memory_bytes};
    }
  }

  End& end(int side) override { return ends_[static_cast<std::size_t>(side)]; }
  // Short enough for a reader to look between two pieces of a write.
  void pump() override {
    mesh_.network.run_for(100);
    for (const End& one : ends_) one.transport->progress();
  }

 private:
  Mesh mesh_;
  std::array<End, 2> ends_;
};

// Each end has two transports of the network, used as one.
class RailedPair final : public ConnectedPair {
 public:
  explicit RailedPair(const NetworkConfig& config) : network_{config} {
    using transport::RailedConnection;
    std::array<std::array<Transport*, 2>, 2> rails;
    for (const std::size_t side : {0U, 1U}) {
      auto first = network_.make_transport(static_cast<int>(side));
      auto second = network_.make_transport(static_cast<int>(side));
      rails[side] = {first.get(), second.get()};
      transports_[side] = std::make_unique<transport::RailedTransport>(
          network_.system(static_cast<int>(side)), base::Log{base::LogLevel::off}, std::move(first),
          std::move(second));
      memory_[side].resize(memory_bytes + transport::rail_notice_bytes);
      ends_[side] = {.transport = transports_[side].get(),
                     .connection = nullptr,
                     .memory = std::span{memory_[side]}.first(memory_bytes),
                     .address = transports_[side]->register_memory(memory_[side],
                                                                   transport::RegionKind::lasting),
                     .region_bytes = memory_[side].size()};
    }
    for (const std::size_t side : {0U, 1U}) {
      const std::size_t other = 1 - side;
      const auto connect = [&](std::size_t rail) {
        return rails[side][rail]->connect(static_cast<int>(other),
                                          rails[other][rail]->address_for(static_cast<int>(side)));
      };
      connections_[side] = std::make_unique<RailedConnection>(
          RailedConnection::Parts{.transport = transports_[side].get(),
                                  .peer = static_cast<int>(other),
                                  .first = connect(0),
                                  .second = connect(1),
                                  .names = {"the first rail", "the second rail"},
                                  .notice = memory_[side].data() + memory_bytes,
                                  .peer_notice = ends_[other].address + memory_bytes,
                                  .mirror = {},
                                  .places = {}});
      ends_[side].connection = connections_[side].get();
    }
  }

  End& end(int side) override { return ends_[static_cast<std::size_t>(side)]; }
  void pump() override {
    network_.run_for(100);
    for (const auto& one : transports_) one->progress();
    for (const auto& one : transports_) one->poll_async_events();
    for (const auto& one : connections_) {
      if (one->asks_taken()) one->tell_taken(0);  // nobody takes messages here
    }
  }

 private:
  Network network_;
  std::array<std::vector<std::byte>, 2> memory_;
  std::array<std::unique_ptr<transport::RailedTransport>, 2> transports_;
  std::array<std::unique_ptr<transport::Connection>, 2> connections_;
  std::array<End, 2> ends_;
};

PairFactory factory(std::string name, const NetworkConfig& config) {
  return {std::move(name), [config] { return std::make_unique<SimulatedPair>(config); }};
}

NetworkConfig without_inline(NetworkConfig config) {
  config.inline_bytes_max = 0;
  return config;
}

const PairFactory shared_memory = factory("shared_memory", shared_memory_network(2, 11));
const PairFactory polled = factory("polled", polled_network(2, 12));
const PairFactory polled_without_inline =
    factory("polled_without_inline", without_inline(polled_network(2, 13)));
const PairFactory immediate = factory("immediate", immediate_network(2, 14));
const PairFactory readable = factory("readable", [] {
  auto config = immediate_network(2, 17);
  config.busy_probability = 0;
  return config;
}());
const PairFactory two_rails = {"two_rails", [] {
                                 auto config = polled_network(2, 18);
                                 config.medium = Notification::immediate;
                                 return std::make_unique<RailedPair>(config);
                               }};
const PairFactory bytes_in_order = factory("bytes_in_order", [] {
  auto config = polled_network(2, 16);
  config.bytes_in_order = true;
  return config;
}());
const PairFactory relaxed_with_flags = factory("relaxed_with_flags", [] {
  auto config = immediate_network(2, 15);
  config.ordered_flag = true;
  return config;
}());

}  // namespace

INSTANTIATE_TEST_SUITE_P(simulated, TransportConformance,
                         ::testing::Values(shared_memory, polled, polled_without_inline, immediate,
                                           relaxed_with_flags, bytes_in_order, two_rails),
                         factory_name);
INSTANTIATE_TEST_SUITE_P(simulated, OrderedWrites,
                         ::testing::Values(shared_memory, polled, polled_without_inline,
                                           bytes_in_order, two_rails),
                         factory_name);
INSTANTIATE_TEST_SUITE_P(simulated, OrderedFlags,
                         ::testing::Values(shared_memory, relaxed_with_flags), factory_name);
INSTANTIATE_TEST_SUITE_P(simulated, Immediates,
                         ::testing::Values(shared_memory, polled, polled_without_inline, immediate,
                                           relaxed_with_flags, two_rails),
                         factory_name);
INSTANTIATE_TEST_SUITE_P(simulated, Registrations, ::testing::Values(readable, two_rails),
                         factory_name);
INSTANTIATE_TEST_SUITE_P(simulated, Fences,
                         ::testing::Values(shared_memory, polled, polled_without_inline, immediate,
                                           two_rails),
                         factory_name);

}  // namespace qpmesh::test
