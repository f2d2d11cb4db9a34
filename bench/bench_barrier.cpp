// SPDX-License-Identifier: MIT
// Barrier. Nobody may leave before the last has entered; on one node all ranks read the
// same monotonic clock, so that can be checked.
#include <chrono>
#include <cstdint>

#include "bench/harness/harness.hpp"
#include "qpmesh/qpmesh.hpp"

namespace {

using namespace qpmesh::bench;

class Barrier final : public Case {
 public:
  explicit Barrier(qpmesh::Communicator& world)
      : world_{world}, one_node_{world.split_node().size() == world.size()} {}

  void run() override { world_.barrier(); }
  void run_baseline(Baseline& baseline) override {
    baseline.collective({.collective = qpmesh::Collective::barrier});
  }

  // One rank, another for each seed, comes late enough that a barrier that does nothing is caught.
  void prepare(std::uint64_t seed) override {
    const bool late =
        static_cast<int>(seed % static_cast<std::uint64_t>(world_.size())) == world_.rank();
    const std::int64_t enters_ns = now_ns() + (late ? 200'000 : 0);
    while (now_ns() < enters_ns) {}
    entered_ns_ = now_ns();
  }
  std::size_t wrong(std::uint64_t /*seed*/) override {
    const std::int64_t left_ns = now_ns();
    std::int64_t last_entered_ns = entered_ns_;
    world_.allreduce(std::span{&last_entered_ns, 1}, qpmesh::max);
    return left_ns < last_entered_ns ? 1 : 0;
  }
  bool checkable() const override { return one_node_; }
  qpmesh::Candidate algorithm() const override {
    return chosen_algorithm(world_, qpmesh::Collective::barrier, 0);
  }

 private:
  static std::int64_t now_ns() {
    return std::chrono::nanoseconds{std::chrono::steady_clock::now().time_since_epoch()}.count();
  }

  qpmesh::Communicator& world_;
  bool one_node_;
  std::int64_t entered_ns_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const Program program{
      .name = "barrier",
      .collectives = {qpmesh::Collective::barrier},
      .series = {
          {.name = "all",
           .limit = LimitKind::mutual,
           .bus_factor = [](int) { return 0.0; },
           .make = [](auto& world, auto, auto) { return std::make_unique<Barrier>(world); }}}};
  return run_program(program, argc, argv);
}
