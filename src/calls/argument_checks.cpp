#include "calls/argument_checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace qpmesh::calls {
namespace {

// Does no block begin before those before it have ended?
bool is_in_order(const BlockLayout& layout) noexcept {
  std::size_t end = 0;
  for (std::size_t rank = 0; rank < layout.counts.size(); ++rank) {
    if (layout.counts[rank] == 0) continue;
    if (layout.displacements[rank] < end) return false;
    end = layout.displacements[rank] + layout.counts[rank];
  }
  return true;
}

}  // namespace

void bad_peer(int peer, int size, std::string_view operation, std::string_view what) {
  base::throw_error({ErrorCode::bad_argument, peer}, operation,
                    fmt::format("ranks here are 0 to {}", size - 1),
                    "{} {} is not a rank of this communicator", what, peer);
}

void bad_reduction(ReductionKind kind, std::string_view operation) {
  if (kind > ReductionKind::logical_xor) {
    bad_argument(operation, "take qpmesh::sum or one of its like", "reduction {} does not exist",
                 static_cast<int>(kind));
  }
  bad_argument(operation, "bit_and, bit_or and bit_xor take integers",
               "a bitwise reduction of a floating type has no meaning");
}

void check_layout(const BlockLayout& layout, std::size_t element_count, int size,
                  std::string_view name, std::string_view operation) {
  const auto ranks = static_cast<std::size_t>(size);
  const bool has_displacements = !layout.displacements.empty();
  if (layout.counts.size() != ranks ||
      (has_displacements && layout.displacements.size() != ranks)) {
    bad_argument(operation, "one count for each rank, and one displacement or none",
                 "the layout of {} has {} counts and {} displacements for {} ranks", name,
                 layout.counts.size(), layout.displacements.size(), size);
  }
  std::size_t end = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const std::size_t first = has_displacements ? layout.displacements[rank] : end;
    const std::size_t count = layout.counts[rank];
    if (first > element_count || count > element_count - first) {
      bad_argument(operation, "counts and displacements are in elements",
                   "block {} of {}, {} elements from {} on, does not lie in its {} elements", rank,
                   name, count, first, element_count);
    }
    end = first + count;
  }
}

void check_no_overlap(const BlockLayout& layout, std::string_view operation) {
  if (is_in_order(layout)) return;  // the usual one needs no memory to be sorted in
  std::vector<std::size_t> ranks(layout.counts.size());
  std::iota(ranks.begin(), ranks.end(), std::size_t{0});
  std::erase_if(ranks, [&](std::size_t rank) { return layout.counts[rank] == 0; });
  std::ranges::sort(ranks, {}, [&](std::size_t rank) { return layout.displacements[rank]; });
  for (std::size_t i = 1; i < ranks.size(); ++i) {
    const std::size_t before = ranks[i - 1];
    const std::size_t after = ranks[i];
    if (layout.displacements[before] + layout.counts[before] <= layout.displacements[after])
      continue;
    bad_argument(operation, "blocks that are received into have no element in common",
                 "blocks {} ({} elements from {} on) and {} (from {} on) overlap", before,
                 layout.counts[before], layout.displacements[before], after,
                 layout.displacements[after]);
  }
}

}  // namespace qpmesh::calls
