// SPDX-License-Identifier: MIT
// Scan and exscan, the sums of floats over the ranks up to each one. Bytes: the vector of each
// rank. nccl-tests have no bus factor for them: almost every rank sends its vector on once.
#include "bench/harness/floats.hpp"

namespace {

using namespace qpmesh::bench;
using qpmesh::Collective;

class Scan final : public FloatCase {
 public:
  Scan(qpmesh::Communicator& world, Buffers buffers, const Cut& cut)
      : FloatCase{world, buffers, Collective::scan, cut} {}

  void run() override { world_.scan(in(), out(), qpmesh::sum, options()); }

 private:
  float expected(std::uint64_t seed, std::size_t index) const override {
    return sum_of_inputs(seed, 0, world_.rank() + 1, index);
  }
};

class Exscan final : public FloatCase {
 public:
  Exscan(qpmesh::Communicator& world, Buffers buffers, const Cut& cut)
      : FloatCase{world, buffers, Collective::exscan, cut} {}

  void run() override { world_.exscan(in(), out(), qpmesh::sum, options()); }

 private:
  bool receives() const override { return world_.rank() > 0; }
  float expected(std::uint64_t seed, std::size_t index) const override {
    return sum_of_inputs(seed, 0, world_.rank(), index);
  }
};

}  // namespace

int main(int argc, char** argv) {
  return run_program({.name = "scan",
                      .collectives = {Collective::scan, Collective::exscan},
                      .series = {float_series("float_sum", LimitKind::one_way, whole_vector,
                                              make_float_case<Scan>),
                                 float_series("exclusive_float_sum", LimitKind::one_way,
                                              whole_vector, make_float_case<Exscan>)}},
                     argc, argv);
}
