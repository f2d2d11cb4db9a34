// SPDX-License-Identifier: MIT
// What the collectives' programs share: a vector of floats goes in, one comes out, and what it must
// hold is known.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/harness/cut.hpp"
#include "bench/harness/harness.hpp"
#include "bench/harness/memory.hpp"
#include "bench/harness/verify.hpp"
#include "qpmesh/qpmesh.hpp"

namespace qpmesh::bench {

// Of a rooted operation.
enum class Roots { moving, fixed };

class FloatCase : public Case {
 public:
  FloatCase(Communicator& world, Buffers buffers, Collective collective, Cut cut);

  void run_baseline(Baseline& baseline) override;
  void prepare(std::uint64_t seed) override;
  std::size_t wrong(std::uint64_t seed) override;
  std::span<std::byte> output() override;
  // "-" for uneven blocks: what Communicator::explain says is meant for equal ones.
  Candidate algorithm() const override;
  std::vector<std::string> algorithms() const override;
  void force(const std::string& algorithm) override { forced_ = algorithm; }
  void take_roots(Roots roots) noexcept { roots_ = roots; }

 protected:
  // Of the latest call: does this rank get something, and what must be there.
  virtual bool receives() const { return true; }
  virtual float expected(std::uint64_t seed, std::size_t index) const = 0;

  // A rooted operation begins with this: every call has the next rank as its root, or the same.
  void next_root() noexcept {
    if (roots_ == Roots::moving) root_ = root_ + 1 < world_.size() ? root_ + 1 : 0;
  }
  CallOptions options() const noexcept { return {.algorithm = forced_}; }
  int root() const noexcept { return root_; }
  bool is_root() const noexcept { return root_ == world_.rank(); }
  const Cut& cut() const noexcept { return cut_; }
  std::span<float> in() const noexcept { return in_.span(); }
  std::span<float> out() const noexcept { return out_.span(); }

  Communicator& world_;

 private:
  Collective collective_;
  Cut cut_;
  Ends ends_;
  Array<float> in_;
  Array<float> out_;
  int root_ = 0;
  Roots roots_ = Roots::moving;
  std::string forced_;
};

// nccl-tests' factors: the bytes that cross the slowest link for each byte of the operation.
inline double whole_vector(int /*ranks*/) { return 1.0; }
inline double others_blocks(int ranks) { return static_cast<double>(ranks - 1) / ranks; }

using MakeFloatCase = std::unique_ptr<FloatCase> (*)(Communicator& world, Buffers buffers,
                                                     const Cut& cut);
template <class T>
std::unique_ptr<FloatCase> make_float_case(Communicator& world, Buffers buffers, const Cut& cut) {
  return std::make_unique<T>(world, buffers, cut);
}

Series float_series(std::string name, LimitKind limit, double (*bus_factor)(int ranks),
                    MakeFloatCase make, Roots roots = Roots::moving);
// A rooted operation on vectors, and beside it that with one root again and again.
std::vector<Series> rooted_series(const std::string& name, LimitKind limit, MakeFloatCase make);
// An operation on blocks, and beside it the v-form with uneven ones. ends_with_a_block: as in
// Series.
std::vector<Series> block_series(const std::string& name, LimitKind limit, bool ends_with_a_block,
                                 MakeFloatCase make);
// The same, rooted: a series more, of equal blocks and one root.
std::vector<Series> rooted_block_series(const std::string& name, LimitKind limit,
                                        bool ends_with_a_block, MakeFloatCase make);

}  // namespace qpmesh::bench
