// SPDX-License-Identifier: MIT
// Allgather of floats. Bytes: all blocks together, which every rank has in the end.
#include "bench/harness/floats.hpp"

namespace {

using namespace qpmesh::bench;
using qpmesh::Collective;

class Allgather final : public FloatCase {
 public:
  Allgather(qpmesh::Communicator& world, Buffers buffers, const Cut& cut)
      : FloatCase{world, buffers, Collective::allgather, cut} {}

  void run() override {
    if (cut().is_even()) {
      world_.allgather(in(), out(), options());
    } else {
      world_.allgather(in(), qpmesh::blocks(out(), cut().counts()), options());
    }
  }

 private:
  float expected(std::uint64_t seed, std::size_t index) const override {
    const auto [rank, its_index] = cut().find(index);
    return input_value<float>(seed, rank, its_index);
  }
};

}  // namespace

int main(int argc, char** argv) {
  return run_program(
      {.name = "allgather",
       .collectives = {Collective::allgather},
       .series = block_series("float", LimitKind::mutual, false, make_float_case<Allgather>)},
      argc, argv);
}
