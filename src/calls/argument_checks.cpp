// SPDX-License-Identifier: MIT
#include "calls/argument_checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <numeric>
#include <vector>

namespace qpmesh::calls {
namespace {

// Does no block begin before those before it have ended?
bool is_in_order(const detail::AnyLayout& layout, std::size_t unit) noexcept {
  std::size_t end = 0;
  for (std::size_t rank = 0; rank < layout.counts.size(); ++rank) {
    if (layout.counts[rank] == 0) continue;
    if (layout.displacements[rank] < end) return false;
    end = layout.displacements[rank] + layout.counts[rank] * unit;
  }
  return true;
}

}  // namespace

void bad_peer(int peer, int size, std::string_view operation, std::string_view what) {
  base::throw_error({ErrorCode::bad_argument, peer}, operation,
                    fmt::format("ranks here are 0 to {}", size - 1),
                    "{} {} is not a rank of this communicator", what, peer);
}

void bad_reduction(ReductionKind kind, ElementType type, std::string_view operation) {
  if (kind > ReductionKind::logical_xor) {
    bad_argument(operation, "take qpmesh::sum or one of its like", "reduction {} does not exist",
                 static_cast<int>(kind));
  }
  if (type == ElementType::none) {
    bad_argument(
        operation,
        "bytes have none (name their type, as uint8), bool has no sum, complex numbers have "
        "sum and product; for other types give a function",
        "this reduction means nothing for such elements");
  }
  bad_argument(operation, "bit_and, bit_or and bit_xor take integers",
               "a bitwise reduction of a floating type has no meaning");
}

void check_layout(const detail::AnyLayout& layout, std::size_t element_count, int size,
                  std::string_view name, std::string_view operation) {
  const auto ranks = static_cast<std::size_t>(size);
  if (layout.is_list) {
    if (layout.counts.size() == ranks) return;
    bad_argument(operation, "one range for each rank", "{} has {} blocks for {} ranks", name,
                 layout.counts.size(), size);
  }
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

void check_no_overlap(const detail::AnyLayout& layout, std::size_t element_bytes,
                      std::string_view operation) {
  const std::size_t unit = layout.is_list ? element_bytes : 1;  // of the displacements
  if (is_in_order(layout, unit)) return;  // the usual one needs no memory to be sorted in
  std::vector<std::size_t> ranks(layout.counts.size());
  std::iota(ranks.begin(), ranks.end(), std::size_t{0});
  std::erase_if(ranks, [&](std::size_t rank) { return layout.counts[rank] == 0; });
  std::ranges::sort(ranks, {}, [&](std::size_t rank) { return layout.displacements[rank]; });
  for (std::size_t i = 1; i < ranks.size(); ++i) {
    const std::size_t before = ranks[i - 1];
    const std::size_t after = ranks[i];
    if (layout.displacements[before] + layout.counts[before] * unit <= layout.displacements[after])
      continue;
    if (layout.is_list) {
      bad_argument(operation, "blocks that are received into have no element in common",
                   "blocks {} and {} overlap", std::min(before, after), std::max(before, after));
    }
    bad_argument(operation, "blocks that are received into have no element in common",
                 "blocks {} ({} elements from {} on) and {} (from {} on) overlap", before,
                 layout.counts[before], layout.displacements[before], after,
                 layout.displacements[after]);
  }
}

void check_disjoint(const BlockMemory& out, const BlockMemory& in, std::string_view operation) {
  const auto begin_of = [](const BlockMemory& of, std::size_t block) {
    return static_cast<const std::byte*>(of.data) + of.offsets_bytes[block];
  };
  std::vector<std::size_t> written;  // in the order of memory; they have nothing in common
  for (std::size_t block = 0; block < in.lengths.size(); ++block) {
    if (in.lengths[block] > 0) written.push_back(block);
  }
  const auto begin = [&](std::size_t block) { return begin_of(in, block); };
  std::ranges::sort(written, std::less<>{}, begin);
  for (std::size_t block = 0; block < out.lengths.size(); ++block) {
    const std::size_t bytes = out.lengths[block] * out.element_bytes;
    if (bytes == 0) continue;
    const std::byte* const end = begin_of(out, block) + bytes;
    // Of those that begin before its end the last one ends last.
    const auto behind = std::ranges::lower_bound(written, end, std::less<>{}, begin);
    if (behind == written.begin()) continue;
    const std::size_t last = *std::prev(behind);
    if (!overlap(begin_of(out, block), bytes, begin(last), in.lengths[last] * in.element_bytes))
      continue;
    bad_argument(operation, "send from one range and receive into another",
                 "block {} to send and block {} to receive into overlap", block, last);
  }
}

}  // namespace qpmesh::calls
