// The binomial tree over 0 … size-1 with its root at 0: the subtree of v is the range [v, v + binomial_span(v)).
// Rooted collectives number ranks relative to their root.
#pragma once

#include <algorithm>
#include <bit>

namespace qpmesh::collectives {

constexpr int relative_rank(int rank, int root, int size) noexcept { return (rank - root + size) % size; }
constexpr int absolute_rank(int relative, int root, int size) noexcept { return (relative + root) % size; }

constexpr int binomial_parent(int v) noexcept { return v & (v - 1); }

// The lowest set bit of v, for the root the first power of two that is no rank.
constexpr int binomial_reach(int v, int size) noexcept {
  return v == 0 ? static_cast<int>(std::bit_ceil(static_cast<unsigned>(size))) : v & -v;
}
constexpr int binomial_span(int v, int size) noexcept { return std::min(binomial_reach(v, size), size - v); }

constexpr int ceil_log2(int size) noexcept {
  return static_cast<int>(std::bit_width(static_cast<unsigned>(size - 1)));
}

}  // namespace qpmesh::collectives
