// Cross memory attach, reductions: every rank copies its slice of all vectors straight out of where
// they lie, in parts that stay in its cache, and reduces them; in an allreduce it then copies the
// others' slices of the result from there. What lies in Buffers is reduced where it lies. Wins for
// long vectors on one node: nothing is staged, what other cores have written crosses once, and
// there are three steps however long the vector is, which ranks that share cores wait for. In rank
// order: ordered reductions included; the same bits on every rank. Cost per rank: (N-1)/N S copied
// and reduced; an allreduce (N-1)/N S copied once more; a call of the system for each copy. Source:
// J. Hashmi, S. Chakraborty, M. Bayatpour, H. Subramoni, D. Panda, "Designing efficient shared
// address space reduction collectives for multi-/many-cores", 2018, with process_vm_readv for
// shared address spaces.
#pragma once

#include <optional>

#include "collectives/arguments.hpp"
#include "collectives/node/cma.hpp"
#include "collectives/node/operation.hpp"

namespace qpmesh::collectives {

// Room for a part of every other rank's slice, each aligned.
class Parts {
 public:
  Parts(const Group& group, std::size_t slice_bytes, std::size_t element_bytes);

  std::size_t part_bytes() const noexcept { return part_bytes_; }
  std::byte* room(std::size_t index) const noexcept {
    return scratch_.data() + index * room_bytes_;
  }

 private:
  static constexpr std::size_t alignment = base::cache_line_bytes;
  std::size_t part_bytes_;
  std::size_t room_bytes_;
  Scratch scratch_;
};

// target = the bytes from `place` on of all vectors, reduced. Returns the rank, if any, whose
// vector could not be read.
std::optional<int> reduce_in_place(const Group& group, const NodeOperation& node,
                                   const Arguments& arguments, const Parts& parts,
                                   std::byte* target, std::size_t place, std::size_t bytes);

// Calls of the system for one slice of everybody.
double copies(const CallShape& shape);

}  // namespace qpmesh::collectives
