// SPDX-License-Identifier: MIT
// Reduce, the sum of floats, to rank after rank. Bytes: the vector of each rank.
#include "bench/harness/floats.hpp"

namespace {

using namespace qpmesh::bench;
using qpmesh::Collective;

class Reduce final : public FloatCase {
 public:
  Reduce(qpmesh::Communicator& world, Buffers buffers, const Cut& cut)
      : FloatCase{world, buffers, Collective::reduce, cut} {}

  void run() override {
    next_root();
    world_.reduce(in(), out(), qpmesh::sum, root(), options());
  }

 private:
  bool receives() const override { return is_root(); }
  float expected(std::uint64_t seed, std::size_t index) const override {
    return sum_of_inputs(seed, 0, world_.size(), index);
  }
};

}  // namespace

int main(int argc, char** argv) {
  return run_program(
      {.name = "reduce",
       .collectives = {Collective::reduce},
       .series = rooted_series("float_sum", LimitKind::one_way, make_float_case<Reduce>)},
      argc, argv);
}
