// SPDX-License-Identifier: MIT
// Alltoall of floats. Bytes: the vector that each rank gives, a block for every rank, which is as
// long as the one it gets.
#include <vector>

#include "bench/harness/floats.hpp"

namespace {

using namespace qpmesh::bench;
using qpmesh::Collective;

class Alltoall final : public FloatCase {
 public:
  Alltoall(qpmesh::Communicator& world, Buffers buffers, const Cut& cut)
      : FloatCase{world, buffers, Collective::alltoall, of_rank(cut, world.size(), world.rank())} {
    for (int rank = 0; rank < world.size(); ++rank)
      mine_begins_.push_back(of_rank(cut, world.size(), rank).displacement(world.rank()));
  }

  void run() override {
    if (cut().is_even()) {
      world_.alltoall(in(), out(), options());
    } else {
      world_.alltoall(qpmesh::blocks(in(), cut().counts()), qpmesh::blocks(out(), cut().counts()),
                      options());
    }
  }

 private:
  static Cut of_rank(const Cut& cut, int ranks, int rank) {
    return cut.is_even() ? cut : Cut::uneven(cut.element_count(), ranks, rank);
  }
  float expected(std::uint64_t seed, std::size_t index) const override {
    const auto [rank, its_index] = cut().find(index);
    return input_value<float>(seed, rank, mine_begins_[static_cast<std::size_t>(rank)] + its_index);
  }

  std::vector<std::size_t> mine_begins_;  // where in each rank's vector this rank's block is
};

}  // namespace

int main(int argc, char** argv) {
  return run_program(
      {.name = "alltoall",
       .collectives = {Collective::alltoall},
       .series = block_series("float", LimitKind::mutual, false, make_float_case<Alltoall>)},
      argc, argv);
}
