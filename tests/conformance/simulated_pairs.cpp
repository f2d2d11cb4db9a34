// The simulated network in each of its natures, under the conformance suites.
#include <array>
#include <utility>

#include "tests/conformance/transport_conformance.hpp"
#include "tests/simulation/mesh.hpp"

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
                                           relaxed_with_flags, bytes_in_order),
                         factory_name);
INSTANTIATE_TEST_SUITE_P(simulated, OrderedWrites,
                         ::testing::Values(shared_memory, polled, polled_without_inline,
                                           bytes_in_order),
                         factory_name);
INSTANTIATE_TEST_SUITE_P(simulated, OrderedFlags,
                         ::testing::Values(shared_memory, relaxed_with_flags), factory_name);
INSTANTIATE_TEST_SUITE_P(simulated, Immediates,
                         ::testing::Values(shared_memory, polled, polled_without_inline, immediate,
                                           relaxed_with_flags),
                         factory_name);
INSTANTIATE_TEST_SUITE_P(simulated, Registrations, ::testing::Values(readable), factory_name);
INSTANTIATE_TEST_SUITE_P(simulated, Fences,
                         ::testing::Values(shared_memory, polled, polled_without_inline, immediate),
                         factory_name);

}  // namespace qpmesh::test
