// What a core does in an algorithm of a node, for the ranks on it one after another: that is what
// the algorithm takes. Bytes cost by where they are: in the core's own cache, in that of another
// core (they cross), or in memory (they stream).
#pragma once

#include <algorithm>
#include <cmath>

#include "collectives/cost.hpp"

namespace qpmesh::collectives {

class CoreWork {
 public:
  // Of at least two ranks.
  CoreWork(const CallShape& shape, const CostModel& model) noexcept
      : model_{model.node},
        ranks_{std::min(model_.ranks_per_core, shape.ranks())},
        others_{(shape.ranks() - ranks_) / (shape.ranks() - 1)},
        steps_s_{model_.step_s + (shape.ranks() - 2) * model_.look_s} {}

  // Waits for members, one after another. A first one has the call around it; in further ones
  // others have often come already.
  CoreWork& steps(double count) noexcept { return add(steps_s_ * (1 + count) / 2); }

  // By every rank: inside its own memory.
  CoreWork& keep(double bytes) noexcept { return add(ranks_ * bytes * model_.copied_byte_s); }
  // Into memory that every other rank reads, or different parts of it each.
  CoreWork& give(double bytes) noexcept { return add(ranks_ * bytes * given_byte_s()); }
  CoreWork& give_parts(double bytes) noexcept { return add(ranks_ * bytes * mixed_byte_s()); }
  // Out of other ranks' memory: what all take, which crosses to a core once, or different parts of
  // it each.
  CoreWork& take(double bytes) noexcept {
    return add(bytes *
               (others_ * model_.crossed_byte_s + (ranks_ - others_) * model_.copied_byte_s));
  }
  CoreWork& take_parts(double bytes) noexcept { return add(ranks_ * bytes * mixed_byte_s()); }
  // So many bytes of operands, beside the first, are combined.
  CoreWork& reduce(double bytes) noexcept { return add(ranks_ * bytes * model_.reduced_byte_s); }
  // Bytes of vectors that come from memory or go there.
  CoreWork& stream(double bytes) noexcept { return add(ranks_ * bytes * model_.streamed_byte_s); }

  // Calls of the system that copy so many bytes together out of other processes.
  CoreWork& system_copies(double count, double bytes) noexcept {
    return add(ranks_ * system_copies_s(count, bytes));
  }

  // By one rank alone, the root.
  CoreWork& system_copies_alone(double count, double bytes) noexcept {
    return add(system_copies_s(count, bytes));
  }
  CoreWork& give_alone(double bytes) noexcept { return add(bytes * given_byte_s()); }
  CoreWork& take_alone(double bytes) noexcept { return add(bytes * mixed_byte_s()); }
  CoreWork& reduce_alone(double bytes) noexcept { return add(bytes * model_.reduced_byte_s); }
  CoreWork& stream_alone(double bytes) noexcept { return add(bytes * model_.streamed_byte_s); }

  Cost cost() const noexcept { return {.time_s = time_s_}; }

 private:
  CoreWork& add(double time_s) noexcept {
    time_s_ += time_s;
    return *this;
  }
  double system_copies_s(double count, double bytes) const noexcept {
    return count * model_.system_copy_s + bytes * model_.system_byte_s;
  }
  double given_byte_s() const noexcept {
    return others_ > 0 ? model_.crossed_byte_s : model_.copied_byte_s;
  }
  double mixed_byte_s() const noexcept {
    return others_ * model_.crossed_byte_s + (1 - others_) * model_.copied_byte_s;
  }

  const NodeCostModel& model_;
  double ranks_;   // on the core
  double others_;  // the share of a rank's peers that are on other cores
  double steps_s_;
  double time_s_ = 0;
};

}  // namespace qpmesh::collectives
