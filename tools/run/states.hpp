// SPDX-License-Identifier: MIT
// What the ranks of this host do, as they tell it in a file of the launcher's
// (base/rank_state.hpp).
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/owned.hpp"

namespace qpmesh::run {

class States {
 public:
  // Of so many ranks. Throws RunError.
  explicit States(int rank_count);

  // For the environment of one of them: "QPMESH_STATES=…".
  std::string variable(int index) const;
  // What it said last; 0: it has not joined.
  std::uint64_t word(int index) const noexcept;

 private:
  base::UniqueFd file_;
  base::Mapping words_;
};

struct SeenRank {
  int rank = 0;
  bool ended = false;
  std::uint64_t word = 0;
};
// One line: "2 in allreduce (0, 3: 4.2 s), 1 outside of calls (1: 4.3 s), 1 ended (2)". Those that
// do the same stand together, with the longest time.
std::string describe(std::span<const SeenRank> ranks, std::uint64_t now_ms);

}  // namespace qpmesh::run
