// SPDX-License-Identifier: MIT
// How a vector is cut into one block for each rank, in elements.
#pragma once

#include <cstddef>
#include <vector>

#include "qpmesh/collective.hpp"

namespace qpmesh::bench {

class Cut {
 public:
  struct Place {
    int block;
    std::size_t index;  // within the block
  };

  // Equal blocks, or lengths that differ by one where the vector is no multiple of the ranks.
  static Cut even(std::size_t element_count, int ranks) {
    const auto blocks = static_cast<std::size_t>(ranks);
    Cut cut{element_count};
    for (std::size_t block = 0; block < blocks; ++block)
      cut.append(element_count / blocks + (block < element_count % blocks ? 1 : 0));
    return cut;
  }
  // Lengths as 1 : 2 : … : ranks, beginning with the one numbered first; the longest takes what is
  // left over. What rank s cuts with first = s for rank r is as long as what r cuts for s, so that
  // an alltoall has one cut for both directions.
  static Cut uneven(std::size_t element_count, int ranks, int first = 0) {
    const auto blocks = static_cast<std::size_t>(ranks);
    const std::size_t unit = element_count / (blocks * (blocks + 1) / 2);
    Cut cut{element_count};
    cut.even_ = false;
    for (std::size_t block = 0; block < blocks; ++block) {
      const std::size_t weight = (block + static_cast<std::size_t>(first)) % blocks + 1;
      const bool longest = weight == blocks;
      cut.append(longest ? element_count - unit * (blocks * (blocks - 1) / 2) : unit * weight);
    }
    return cut;
  }

  bool is_even() const noexcept { return even_; }
  std::size_t element_count() const noexcept { return element_count_; }
  std::size_t count(int rank) const { return counts_[static_cast<std::size_t>(rank)]; }
  std::size_t displacement(int rank) const {
    return displacements_[static_cast<std::size_t>(rank)];
  }
  const std::vector<std::size_t>& counts() const noexcept { return counts_; }
  // The same as MPI 3 takes it; made beforehand, so that no conversion is measured.
  const int* mpi_counts() const noexcept { return mpi_counts_.data(); }
  const int* mpi_displacements() const noexcept { return mpi_displacements_.data(); }

  Place find(std::size_t index) const {
    int block = 0;
    while (index - displacement(block) >= count(block)) ++block;
    return {.block = block, .index = index - displacement(block)};
  }

 private:
  explicit Cut(std::size_t element_count) : element_count_{element_count} {}

  void append(std::size_t count) {
    displacements_.push_back(counts_.empty() ? 0 : displacements_.back() + counts_.back());
    counts_.push_back(count);
    mpi_displacements_.push_back(static_cast<int>(displacements_.back()));
    mpi_counts_.push_back(static_cast<int>(count));
  }

  std::size_t element_count_;
  bool even_ = true;
  std::vector<std::size_t> counts_;
  std::vector<std::size_t> displacements_;
  std::vector<int> mpi_counts_;
  std::vector<int> mpi_displacements_;
};

// Elements that one rank gives to an operation on a vector, and gets from it. Where only the root
// uses one of the two, every rank has it: roots rotate.
struct Ends {
  std::size_t in;
  std::size_t out;
};
inline Ends ends_of(Collective collective, const Cut& cut, int rank) {
  switch (collective) {
    case Collective::allgather:
    case Collective::gather: return {.in = cut.count(rank), .out = cut.element_count()};
    case Collective::reduce_scatter:
    case Collective::scatter: return {.in = cut.element_count(), .out = cut.count(rank)};
    default: return {.in = cut.element_count(), .out = cut.element_count()};
  }
}

}  // namespace qpmesh::bench
