// SPDX-License-Identifier: MIT
// What an algorithm is, and what it is called with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <type_traits>

#include "base/bytes.hpp"
#include "collectives/cost.hpp"
#include "collectives/group.hpp"
#include "collectives/kernels/reduce.hpp"
#include "collectives/node/stores.hpp"
#include "collectives/patterns/blocks.hpp"
#include "qpmesh/collective.hpp"

namespace qpmesh::collectives {

// One call of a collective, as an algorithm sees it. What the members mean (a vector has
// element_count elements; blocks cut the vector of all ranks):
//   broadcast       out: the vector, in place at the root
//   reduce          in: a vector; out: the result, at the root only
//   allreduce, scan, exscan   in, out: a vector
//   allgather       in: this rank's block; out, out_blocks: all of them
//   gather          the same, out and out_blocks at the root only
//   scatter         in, in_blocks: all blocks, at the root only; out: this rank's block
//   reduce_scatter  in, in_blocks: a vector; out: this rank's block of the result
//   alltoall        in, in_blocks: a block for each rank; out, out_blocks: a block from each
// element_count of a gather's or scatter's rank is that of its own block. in == out, or in at this
// rank's block of out (or the other way round) is in place; otherwise they do not overlap. Only the
// members that a collective has a meaning for are set. Tasks take it by reference: whoever starts
// one keeps it until the task has ended, as the face keeps it in the request.
struct Arguments {
  const std::byte* in;
  std::byte* out;
  std::size_t element_count;
  std::size_t element_bytes;
  Blocks in_blocks;
  Blocks out_blocks;
  int root;
  Reducer reducer;

  std::size_t bytes() const noexcept { return element_count * element_bytes; }
};
static_assert(std::is_trivially_destructible_v<Arguments>);

inline constexpr Arguments no_arguments{};  // of a barrier

// The bits of a reduction's result. Rows that combine all operands of an element in one pass, in
// rank order, give the same bits: one may run instead of another while a program runs.
enum class Bits : std::uint8_t { its_own, of_rank_order };

// Algorithm::meant_from_bytes of what is made for ranks between which there is a network: on one
// node, vectors of no length are meant for it.
inline constexpr std::size_t never_on_a_node = std::numeric_limits<std::size_t>::max();

// Longer vectors are not published in one shot.
inline constexpr std::size_t one_shot_bytes_max = std::size_t{8} << 10;

// A row that an algorithm's file ends with, beside the coroutine and the cost.
struct Algorithm {
  Collective collective;
  std::string_view name;  // of its file, of its value in QPMESH_ALGORITHMS and of the log field
  bool (*applies)(const CallShape& shape);
  Cost (*cost)(const CallShape& shape, const CostModel& model);
  Task (*run)(Group group, const Arguments& arguments);
  Bits bits = Bits::its_own;  // of a reduction; whoever only moves data changes none
  // On one node, for shorter vectors it runs where nothing else does, or when it is forced: it is
  // made for long ones, and among short calls two rows are hard to tell apart. Rows that publish or
  // stage say it of themselves; messages and copies by the system beat none of these in short
  // calls.
  std::size_t meant_from_bytes = one_shot_bytes_max + 1;
  std::optional<Stores> stages{};          // how it stores what the others read; none: it does not
  std::uint64_t hash = base::mix64(name);  // in the signature of a call: the same on every rank
};

constexpr bool is_reduction(Collective collective) noexcept {
  switch (collective) {
    case Collective::reduce:
    case Collective::reduce_scatter:
    case Collective::allreduce:
    case Collective::scan:
    case Collective::exscan: return true;
    default: return false;
  }
}
// Does it give the same bits as all other rows of its collective of which this is true?
constexpr bool gives_common_bits(const Algorithm& row) noexcept {
  return !is_reduction(row.collective) || row.bits == Bits::of_rank_order;
}

// What rows apply to.
inline bool always(const CallShape& /*shape*/) { return true; }
inline bool any_order(const CallShape& shape) { return !shape.ordered; }
inline bool equal_blocks(const CallShape& shape) { return !shape.uneven; }

}  // namespace qpmesh::collectives
