// SPDX-License-Identifier: MIT
// The binomial tree over 0 … size-1 with its root at 0: the subtree of v is the range [v, v +
// binomial_span(v)). Rooted collectives number ranks relative to their root.
#pragma once

#include <algorithm>
#include <bit>

#include "collectives/cost.hpp"

namespace qpmesh::collectives {

constexpr int relative_rank(int rank, int root, int size) noexcept {
  return (rank - root + size) % size;
}
constexpr int absolute_rank(int relative, int root, int size) noexcept {
  return (relative + root) % size;
}

constexpr int binomial_parent(int v) noexcept { return v & (v - 1); }

// The lowest set bit of v, for the root the first power of two that is no rank.
constexpr int binomial_reach(int v, int size) noexcept {
  return v == 0 ? static_cast<int>(std::bit_ceil(static_cast<unsigned>(size))) : v & -v;
}
constexpr int binomial_span(int v, int size) noexcept {
  return std::min(binomial_reach(v, size), size - v);
}

constexpr int ceil_log2(int size) noexcept {
  return static_cast<int>(std::bit_width(static_cast<unsigned>(size - 1)));
}

// Down the tree of so many ranks, the largest subtree first; bytes_of(ranks) go to a subtree of so
// many. Up the tree it takes as long. The longest way is through the first child, or, where the
// first subtree is not full, perhaps through the second one.
template <class BytesOf>
double binomial_s(int size, const CostModel& model, BytesOf&& bytes_of) {
  if (size <= 1) return 0;
  const int reach = static_cast<int>(std::bit_ceil(static_cast<unsigned>(size))) / 2;
  const auto through = [&](int ranks) {
    return model.round_s(1, bytes_of(ranks)) + binomial_s(ranks, model, bytes_of);
  };
  const int first = size - reach;
  if (first == reach) return through(first);
  return std::max(through(first), model.port_s(bytes_of(first)) + through(reach / 2));
}

}  // namespace qpmesh::collectives
