// SPDX-License-Identifier: MIT
// The algorithms that somebody wants, whatever they cost (QPMESH_ALGORITHMS).
#pragma once

#include <array>
#include <cstddef>
#include <limits>
#include <string_view>
#include <vector>

#include "collectives/algorithm.hpp"

namespace qpmesh::collectives {

// For vectors of less than bytes_end, all blocks together, that no rule before it is for.
struct ForcedRule {
  std::size_t bytes_end = std::numeric_limits<std::size_t>::max();  // the last one is for all
  const Algorithm* row = nullptr;

  bool operator==(const ForcedRule&) const = default;
};

struct Forced {
  std::array<std::vector<ForcedRule>, collective_count> rules;  // of a collective: rising, or none

  // nullptr: nothing is forced.
  const Algorithm* find(Collective collective, std::size_t bytes) const noexcept {
    for (const ForcedRule& rule : rules[static_cast<std::size_t>(collective)]) {
      // What is as long as can be has a rule, too.
      if (bytes < rule.bytes_end || rule.bytes_end == ForcedRule{}.bytes_end) return rule.row;
    }
    return nullptr;
  }
  bool operator==(const Forced&) const = default;
};

// "allreduce=one_shot:<8KiB,direct,broadcast=chain": what has a '=' begins a collective; a row with
// a size is for shorter vectors, and the last one of a collective is for all others. The last list
// of a collective counts. Throws Error{bad_config} naming what is unknown, or no rule, and what is
// known.
Forced parse_forced(std::string_view text);

}  // namespace qpmesh::collectives
