// SPDX-License-Identifier: MIT
// Reduce_scatter, the sum of floats. Bytes: the vector that each rank gives, of which it gets one
// block.
#include "bench/harness/floats.hpp"

namespace {

using namespace qpmesh::bench;
using qpmesh::Collective;

class ReduceScatter final : public FloatCase {
 public:
  ReduceScatter(qpmesh::Communicator& world, Buffers buffers, const Cut& cut)
      : FloatCase{world, buffers, Collective::reduce_scatter, cut} {}

  void run() override {
    if (cut().is_even()) {
      world_.reduce_scatter(in(), out(), qpmesh::sum, options());
    } else {
      world_.reduce_scatter(qpmesh::blocks(in(), cut().counts()), out(), qpmesh::sum, options());
    }
  }

 private:
  float expected(std::uint64_t seed, std::size_t index) const override {
    return sum_of_inputs(seed, 0, world_.size(), cut().displacement(world_.rank()) + index);
  }
};

}  // namespace

int main(int argc, char** argv) {
  return run_program({.name = "reduce_scatter",
                      .collectives = {Collective::reduce_scatter},
                      .series = block_series("float_sum", LimitKind::mutual, true,
                                             make_float_case<ReduceScatter>)},
                     argc, argv);
}
