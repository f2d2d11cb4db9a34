// SPDX-License-Identifier: MIT
// Allreduce, the sum of floats. Bytes: the vector of each rank. Every rank sends and receives
// 2(N-1)/N of it at least: that is its bus factor.
#include "bench/harness/floats.hpp"

namespace {

using namespace qpmesh::bench;
using qpmesh::Collective;

class Allreduce final : public FloatCase {
 public:
  Allreduce(qpmesh::Communicator& world, Buffers buffers, const Cut& cut)
      : FloatCase{world, buffers, Collective::allreduce, cut} {}

  void run() override { world_.allreduce(in(), out(), qpmesh::sum, options()); }

 private:
  float expected(std::uint64_t seed, std::size_t index) const override {
    return sum_of_inputs(seed, 0, world_.size(), index);
  }
};

}  // namespace

int main(int argc, char** argv) {
  const auto bus_factor = [](int ranks) { return 2.0 * (ranks - 1) / ranks; };
  return run_program({.name = "allreduce",
                      .collectives = {Collective::allreduce},
                      .series = {float_series("float_sum", LimitKind::sliced, bus_factor,
                                              make_float_case<Allreduce>)}},
                     argc, argv);
}
