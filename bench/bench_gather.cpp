// SPDX-License-Identifier: MIT
// Gather of floats at rank after rank. Bytes: all blocks together, which the root has in the end.
#include "bench/harness/floats.hpp"

namespace {

using namespace qpmesh::bench;
using qpmesh::Collective;

class Gather final : public FloatCase {
 public:
  Gather(qpmesh::Communicator& world, Buffers buffers, const Cut& cut)
      : FloatCase{world, buffers, Collective::gather, cut} {}

  void run() override {
    next_root();
    if (cut().is_even()) {
      world_.gather(in(), out(), root(), options());
    } else {
      world_.gather(in(), qpmesh::blocks(out(), cut().counts()), root(), options());
    }
  }

 private:
  bool receives() const override { return is_root(); }
  float expected(std::uint64_t seed, std::size_t index) const override {
    const auto [rank, its_index] = cut().find(index);
    return input_value<float>(seed, rank, its_index);
  }
};

}  // namespace

int main(int argc, char** argv) {
  return run_program(
      {.name = "gather",
       .collectives = {Collective::gather},
       .series = rooted_block_series("float", LimitKind::one_way, false, make_float_case<Gather>)},
      argc, argv);
}
