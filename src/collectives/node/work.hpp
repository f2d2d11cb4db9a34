// SPDX-License-Identifier: MIT
// What a core does in an algorithm of a node, for the ranks on it one after another: that is what
// the algorithm takes. Bytes cost by where they are: in the core's own cache, in that of another
// core (they cross), or in memory (they stream).
#pragma once

#include <algorithm>

#include "collectives/cost.hpp"

namespace qpmesh::collectives {

// Of one rank. Bytes, but for the calls.
struct CoreWork {
  double keep = 0;    // copied inside its own memory
  double give = 0;    // copied into memory that every other rank reads
  double take = 0;    // copied out of others' memory, what all take: it crosses to a core once
  double parts = 0;   // given or taken, others for each rank
  double reduce = 0;  // of operands, beside the first, that are combined
  double stream = 0;  // of vectors that come from memory or go there
  double past = 0;    // that pass the caches by on their way to another rank: there, and back
  double system_calls = 0;
  double system_copies = 0;  // what these calls copy out of other processes
};

// Of at least two ranks, which wait so many times for members, one after another: all of them do
// the work of `each`, and the root that of `root` beside it.
inline Cost core_cost(const CallShape& shape, const CostModel& model, double steps,
                      const CoreWork& each, const CoreWork& root = {}) noexcept {
  const NodeCostModel& node = model.node;
  const double on_core = std::min(node.ranks_per_core, shape.ranks());
  // The share of a rank's peers that are on other cores.
  const double others = (shape.ranks() - on_core) / (shape.ranks() - 1);
  const auto work_s = [&](const CoreWork& work, double ranks) {
    const double given_byte_s = others > 0 ? node.crossed_byte_s : node.copied_byte_s;
    const double part_byte_s = others * node.crossed_byte_s + (1 - others) * node.copied_byte_s;
    const double taken_s =
        work.take * (others * node.crossed_byte_s + (ranks - others) * node.copied_byte_s);
    return taken_s + ranks * (work.keep * node.copied_byte_s + work.give * given_byte_s +
                              work.parts * part_byte_s + work.reduce * node.reduced_byte_s +
                              work.stream * node.streamed_byte_s + work.past * node.past_byte_s +
                              work.system_calls * node.system_copy_s +
                              work.system_copies * node.system_byte_s);
  };
  // A first wait has the call around it; in further ones others have often come already.
  const double step_s = node.step_s + (shape.ranks() - 2) * node.look_s;
  return {.time_s = step_s * (1 + steps) / 2 + work_s(each, on_core) + work_s(root, 1)};
}

}  // namespace qpmesh::collectives
