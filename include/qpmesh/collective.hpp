// SPDX-License-Identifier: MIT
// The collective operations, and how a vector is cut for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "qpmesh/export.h"

namespace qpmesh {

// Which operation: what explain asks for.
enum class Collective : std::uint8_t {
  barrier,
  broadcast,
  reduce,
  allgather,
  reduce_scatter,
  allreduce,
  gather,
  scatter,
  alltoall,
  scan,
  exscan
};
inline constexpr std::size_t collective_count =
    static_cast<std::size_t>(Collective::exscan) + 1;  // how many there are

QPMESH_API std::string_view name_of(Collective collective) noexcept;  // "reduce_scatter"

// A vector's blocks of unequal lengths, one for each rank, in elements: counts[r] from
// displacements[r] on; without displacements the blocks follow one another. Both lists have size()
// entries, and are read during the call only. With a vector it makes Blocks (qpmesh/blocks.hpp).
struct BlockLayout {
  std::span<const std::size_t> counts{};         // elements of each block
  std::span<const std::size_t> displacements{};  // where each begins; may be empty
};

// A vector's blocks of equal lengths whose beginnings are equally far apart: the rows of a part of
// a matrix, say.
struct BlockStride {
  std::size_t block_count;      // one for each rank
  std::size_t block_elements;   // of each
  std::size_t stride_elements;  // from one's beginning to the next one's
};

// An algorithm that could run, by the name that forces it, as Communicator::explain lists it.
struct Candidate {
  std::string_view algorithm;  // its name
  bool applies = false;        // to so many ranks
  bool chosen = false;         // would run
  double predicted_us = 0;     // where it applies
  double measured_us = 0;      // of a call of about these bytes, where there are samples
  std::uint32_t samples = 0;   // calls that were timed when it was measured last
};

}  // namespace qpmesh
