// SPDX-License-Identifier: MIT
// The least that ranks must do to add up long vectors in memory that all of them map: each adds its
// slice from all inputs in one pass, then copies the others' slices. By hand: flags, loops over
// floats, memcpy; what allreduce on Buffers is held against.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "bench/harness/flag_probe.hpp"

namespace qpmesh::bench {

// One rank's end. Collective: every rank makes one over the same zeroed memory, and runs it as
// often.
class SliceProbe {
 public:
  static std::size_t shared_bytes(int ranks, std::size_t element_count) noexcept;

  SliceProbe(std::byte* shared, int rank, int ranks, std::size_t element_count,
             unsigned looks_per_yield);

  void run() noexcept;
  std::span<float> in() const noexcept { return vector_of(rank_, 0); }
  std::span<const float> out() const noexcept { return vector_of(rank_, 1); }

 private:
  std::span<float> vector_of(int rank, int which) const noexcept;
  // As with even blocks of any collective.
  std::size_t slice_begin(int rank) const noexcept;
  std::span<float> slice(int rank, int vector_of_rank, int which) const noexcept;
  void add_own_slice() noexcept;
  void await(int peer) const noexcept { await_round(lines_[peer], round_, looks_per_yield_); }

  std::byte* shared_;
  FlagLine* lines_;
  int rank_;
  int ranks_;
  std::size_t element_count_;
  unsigned looks_per_yield_;
  std::uint32_t round_ = 0;
};

}  // namespace qpmesh::bench
