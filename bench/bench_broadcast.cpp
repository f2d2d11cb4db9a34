// SPDX-License-Identifier: MIT
// Broadcast of floats from rank after rank. Bytes: the vector, which every rank has in the end.
#include "bench/harness/floats.hpp"

namespace {

using namespace qpmesh::bench;
using qpmesh::Collective;

// The root sends its inputs, the others receive into their outputs: so each is known to be one or
// the other.
class Broadcast final : public FloatCase {
 public:
  Broadcast(qpmesh::Communicator& world, Buffers buffers, const Cut& cut)
      : FloatCase{world, buffers, Collective::broadcast, cut} {}

  void run() override {
    next_root();
    world_.broadcast(data(), root(), options());
  }
  void run_baseline(Baseline& baseline) override {
    next_root();
    baseline.collective({.collective = Collective::broadcast, .out = data(), .root = root()});
  }

 private:
  std::span<float> data() const { return is_root() ? in() : out(); }
  bool receives() const override { return !is_root(); }
  float expected(std::uint64_t seed, std::size_t index) const override {
    return input_value<float>(seed, root(), index);
  }
};

}  // namespace

int main(int argc, char** argv) {
  return run_program(
      {.name = "broadcast",
       .collectives = {Collective::broadcast},
       .series = rooted_series("float", LimitKind::one_way, make_float_case<Broadcast>)},
      argc, argv);
}
