// SPDX-License-Identifier: MIT
// The circulant pattern: reduce-scatter and allgather in ceil(log2 N) rounds for
// every N, with exactly N-1 blocks per rank.
// Source: J. L. Träff, "Optimal, non-pipelined reduce-scatter and allreduce algorithms", 2024.
//
// Rank r views the vector rotated: R[j] is block (r + j) mod N. Skips s_0 = N, s_{i+1} = ceil(s_i /
// 2), down to 1. Reduce-scatter round (s, s' = the next skip): send R[s' … s-1] to r + s', receive
// as much from r - s' and reduce it into R[0 … s-s'-1]. Afterwards R[0] is complete. Allgather is
// the same list backwards: send R[0 … s-s'-1] to r - s', receive into R[s' … s-1] from r + s'.
#pragma once

#include <algorithm>

#include "collectives/patterns/binomial.hpp"

namespace qpmesh::collectives {

struct CirculantRound {
  int skip;       // s
  int next_skip;  // s'
  int block_count() const noexcept { return skip - next_skip; }
};

// The n-th of the ceil_log2(size) rounds, counted from the first of the reduce-scatter.
constexpr CirculantRound circulant_round(int size, int n) noexcept {
  int skip = size;
  for (; n > 0; --n) skip = (skip + 1) / 2;
  return {skip, (skip + 1) / 2};
}

// A run of consecutive blocks of the vector.
struct BlockRun {
  int first;
  int count;
};

// The rotated range R[begin … begin + count) of a rank is at most two runs of consecutive blocks:
// it wraps at block N. f(run, begin of the run in the rotated view).
template <class F>
void for_each_run(int rank, int size, int begin, int count, F&& f) {
  if (count == 0) return;
  const int first = (rank + begin) % size;
  const int before_wrap = std::min(count, size - first);
  f(BlockRun{first, before_wrap}, begin);
  if (before_wrap < count) f(BlockRun{0, count - before_wrap}, begin + before_wrap);
}

}  // namespace qpmesh::collectives
