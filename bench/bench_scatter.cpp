// SPDX-License-Identifier: MIT
// Scatter of floats from rank after rank. Bytes: the root's vector, of which every rank gets one
// block.
#include "bench/harness/floats.hpp"

namespace {

using namespace qpmesh::bench;
using qpmesh::Collective;

class Scatter final : public FloatCase {
 public:
  Scatter(qpmesh::Communicator& world, Buffers buffers, const Cut& cut)
      : FloatCase{world, buffers, Collective::scatter, cut} {}

  void run() override {
    next_root();
    if (cut().is_even()) {
      world_.scatter(in(), out(), root(), options());
    } else {
      world_.scatter(qpmesh::blocks(in(), cut().counts()), out(), root(), options());
    }
  }

 private:
  float expected(std::uint64_t seed, std::size_t index) const override {
    return input_value<float>(seed, root(), cut().displacement(world_.rank()) + index);
  }
};

}  // namespace

int main(int argc, char** argv) {
  return run_program(
      {.name = "scatter",
       .collectives = {Collective::scatter},
       .series = rooted_block_series("float", LimitKind::one_way, true, make_float_case<Scatter>)},
      argc, argv);
}
