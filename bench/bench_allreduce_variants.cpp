// SPDX-License-Identifier: MIT
// Allreduce in other ways than bench_allreduce's: polled by test(), and of bfloat16. Bytes: the
// vector of each rank.
#include <string>
#include <utility>
#include <vector>

#include "bench/harness/floats.hpp"

namespace {

using namespace qpmesh::bench;
using qpmesh::Collective;

// Started, and asked again and again whether it is done.
class Polled final : public FloatCase {
 public:
  Polled(qpmesh::Communicator& world, Buffers buffers, const Cut& cut)
      : FloatCase{world, buffers, Collective::allreduce, cut} {}

  void run() override {
    qpmesh::Request request = world_.allreduce_async(in(), out(), qpmesh::sum, options());
    while (!request.test()) {}
  }
  void run_baseline(Baseline& baseline) override {
    baseline.collective(
        {.collective = Collective::allreduce, .in = in(), .out = out(), .polled = true});
  }

 private:
  float expected(std::uint64_t seed, std::size_t index) const override {
    return sum_of_inputs(seed, 0, world_.size(), index);
  }
};

// Of halves, as inference does it: few ranks, 8 to 64 KiB, with computing between the calls.
class Halves final : public Case {
 public:
  using Half = qpmesh::bfloat16;
  Halves(qpmesh::Communicator& world, Buffers buffers, std::size_t bytes)
      : world_{world},
        in_{world, buffers.kind, bytes / sizeof(Half)},
        out_{world, buffers.kind, bytes / sizeof(Half), buffers.offset_bytes} {}

  void run() override {
    world_.allreduce(in_.view(), out_.span(), qpmesh::sum, {.algorithm = forced_});
  }
  void run_baseline(Baseline& /*baseline*/) override {}
  void prepare(std::uint64_t seed) override {
    for (std::size_t i = 0; i < in_.span().size(); ++i)
      in_.span()[i] = Half{input_value<float>(seed, world_.rank(), i)};
    poison(out_.span());
  }
  std::size_t wrong(std::uint64_t seed) override {
    return count_wrong(out_.view(), [seed, this](std::size_t index) {
      return Half{sum_of_inputs(seed, 0, world_.size(), index)};
    });
  }
  // Whole numbers up to 256 are exact.
  bool checkable() const override { return world_.size() <= 32; }
  std::span<std::byte> output() override { return out_.bytes(); }
  qpmesh::Candidate algorithm() const override {
    return chosen_algorithm(world_, Collective::allreduce, in_.bytes().size());
  }
  std::vector<std::string> algorithms() const override {
    return applicable_algorithms(world_, Collective::allreduce, in_.bytes().size());
  }
  void force(const std::string& algorithm) override { forced_ = algorithm; }

 private:
  qpmesh::Communicator& world_;
  Array<Half> in_;
  Array<Half> out_;
  std::string forced_;
};

}  // namespace

int main(int argc, char** argv) {
  const auto bus_factor = [](int ranks) { return 2.0 * (ranks - 1) / ranks; };
  const auto make_halves = [](auto& world, auto buffers, auto bytes) {
    return std::make_unique<Halves>(world, buffers, bytes);
  };
  return run_program({.name = "allreduce_variants",
                      .collectives = {Collective::allreduce},
                      .series = {float_series("float_sum_polled", LimitKind::sliced, bus_factor,
                                              make_float_case<Polled>),
                                 {.name = "bfloat16_sum",
                                  .element_bytes = sizeof(qpmesh::bfloat16),
                                  .has_baseline = false,
                                  .bus_factor = bus_factor,
                                  .make = make_halves}}},
                     argc, argv);
}
