// Allreduce, the sum of floats. Every rank sends and receives 2(N-1)/N of the
// vector at least: that is its bus factor.
#include "bench/harness/harness.hpp"
#include "bench/harness/memory.hpp"
#include "bench/harness/verify.hpp"
#include "qpmesh/qpmesh.hpp"

namespace {

using namespace qpmesh::bench;

class FloatSum final : public Case {
 public:
  FloatSum(qpmesh::Communicator& world, Buffers buffers, std::size_t bytes)
      : world_{world},
        in_{world, buffers, bytes / sizeof(float)},
        out_{world, buffers, bytes / sizeof(float)} {}

  void run() override { world_.allreduce(in_.view(), out_.span(), qpmesh::sum); }
  void run_baseline(Baseline& baseline) override { baseline.allreduce_sum(in_.view(), out_.span()); }

  void prepare(std::uint64_t seed) override {
    fill_inputs(in_.span(), seed, world_.rank());
    poison(out_.span());
  }
  std::size_t wrong(std::uint64_t seed) override {
    return count_wrong_sums(out_.view(), seed, world_.size());
  }
  std::span<std::byte> output() override { return out_.bytes(); }
  std::string_view algorithm() const override {
    return chosen_algorithm(world_, qpmesh::Collective::allreduce, out_.bytes().size());
  }

 private:
  qpmesh::Communicator& world_;
  Array<float> in_;
  Array<float> out_;
};

}  // namespace

int main(int argc, char** argv) {
  const Program program{
      .name = "allreduce",
      .collective = qpmesh::Collective::allreduce,
      .series = {{.name = "float_sum",
                  .element_bytes = sizeof(float),
                  .limit = LimitKind::exchange,
                  .bus_factor = [](int ranks) { return 2.0 * (ranks - 1) / ranks; },
                  .make = [](auto& world, auto buffers,
                             auto bytes) { return std::make_unique<FloatSum>(world, buffers, bytes); }}}};
  return run_program(program, argc, argv);
}
