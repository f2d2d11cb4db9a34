#include "calls/argument_checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "qpmesh/error.hpp"

namespace qpmesh::calls {
namespace {

[[noreturn]] void bad_argument(std::string_view operation, std::string cause, std::string hint,
                               int peer = no_peer) {
  throw Error{{.code = ErrorCode::bad_argument,
               .peer = peer,
               .operation = std::string{operation},
               .cause = std::move(cause),
               .hint = std::move(hint)}};
}

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

void bad_count(std::size_t element_count, std::size_t element_bytes, std::string_view operation) {
  bad_argument(operation,
               fmt::format("{} elements of {} bytes are more than memory can hold", element_count,
                           element_bytes),
               "a negative count, turned unsigned, looks like this");
}

void bad_null(std::size_t element_count, std::string_view operation) {
  bad_argument(operation, fmt::format("null with a count of {}", element_count),
               "a range without memory has a count of 0");
}

void bad_peer(int peer, int size, std::string_view operation, std::string_view what) {
  bad_argument(operation, fmt::format("{} {} is not a rank of this communicator", what, peer),
               fmt::format("ranks here are 0 to {}", size - 1), peer);
}

void bad_tag(int tag, std::string_view operation) {
  bad_argument(operation, fmt::format("tag {} is negative", tag), "tags are 0 to 2147483647");
}

void bad_timeout(std::int64_t timeout_ms, std::string_view operation) {
  bad_argument(operation, fmt::format("a timeout of {} ms", timeout_ms),
               fmt::format("1 to {} ms, 0 for ever, or leave it out for QPMESH_TIMEOUT_MS",
                           CallOptions::timeout_ms_max));
}

void bad_reduction(Reduction reduction, std::string_view operation) {
  if (reduction.kind > ReductionKind::logical_xor) {
    bad_argument(operation,
                 fmt::format("reduction {} does not exist", static_cast<int>(reduction.kind)),
                 "take qpmesh::sum or one of its like");
  }
  bad_argument(operation, "a bitwise reduction of a floating type has no meaning",
               "bit_and, bit_or and bit_xor take integers");
}

void bad_prefix_average(std::string_view operation) {
  bad_argument(operation, "the average of a prefix has no meaning",
               "take qpmesh::sum, and divide by the number of ranks that it covers");
}

void bad_displacements(std::string_view operation) {
  bad_argument(operation, "a layout with displacements",
               "the blocks of a reduce_scatter follow one another: give counts alone");
}

void bad_total(std::size_t all, std::size_t one, int size, std::string_view all_name,
               std::string_view one_name, std::string_view operation) {
  const auto need = base::checked_multiply(one, static_cast<std::size_t>(size));
  bad_argument(operation,
               fmt::format("{} has {} elements, but {} ranks with {} elements each ({}) need {}",
                           all_name, all, size, one, one_name,
                           need ? std::to_string(*need) : "more than memory can hold"),
               "for blocks of unequal lengths give a BlockLayout");
}

void bad_even_blocks(std::size_t in, std::size_t out, int size, std::string_view operation) {
  bad_argument(
      operation,
      fmt::format("in has {} elements and out {}: not the same number of whole blocks for {} ranks",
                  in, out, size),
      "for blocks of unequal lengths give two BlockLayouts");
}

void bad_block(std::size_t count, std::size_t expected, std::string_view name,
               std::string_view expected_name, std::string_view operation) {
  bad_argument(operation,
               fmt::format("{} has {} elements, {} {}", name, count, expected_name, expected),
               "they must be equal");
}

void check_layout(const BlockLayout& layout, std::size_t element_count, int size,
                  std::string_view name, std::string_view operation) {
  const auto ranks = static_cast<std::size_t>(size);
  const bool has_displacements = !layout.displacements.empty();
  if (layout.counts.size() != ranks ||
      (has_displacements && layout.displacements.size() != ranks)) {
    bad_argument(operation,
                 fmt::format("the layout of {} has {} counts and {} displacements for {} ranks",
                             name, layout.counts.size(), layout.displacements.size(), size),
                 "one count for each rank, and one displacement or none");
  }
  std::size_t end = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const std::size_t first = has_displacements ? layout.displacements[rank] : end;
    const std::size_t count = layout.counts[rank];
    if (first > element_count || count > element_count - first) {
      bad_argument(
          operation,
          fmt::format("block {} of {}, {} elements from {} on, does not lie in its {} elements",
                      rank, name, count, first, element_count),
          "counts and displacements are in elements");
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
    bad_argument(operation,
                 fmt::format("blocks {} ({} elements from {} on) and {} (from {} on) overlap",
                             before, layout.counts[before], layout.displacements[before], after,
                             layout.displacements[after]),
                 "blocks that are received into have no element in common");
  }
}

void bad_in_place(std::size_t all_bytes, std::size_t mine_bytes, std::string_view operation) {
  bad_argument(
      operation,
      fmt::format("the {} bytes of this rank and the {} bytes of all overlap, but not at its block",
                  mine_bytes, all_bytes),
      "in place, a rank's range is its own block; otherwise the two do not touch");
}

void bad_disjoint(std::size_t out_bytes, std::size_t in_bytes, std::string_view operation) {
  bad_argument(operation,
               fmt::format("the {} bytes to send and the {} bytes to receive into overlap",
                           out_bytes, in_bytes),
               "send from one range and receive into another");
}

void bad_counts(std::size_t in, std::size_t out, std::string_view operation) {
  bad_argument(operation, fmt::format("in has {} elements, out has {}", in, out),
               "give in and out equal counts");
}

void bad_pair(std::size_t bytes, std::string_view operation) {
  bad_argument(operation, fmt::format("in and out overlap without being the same {} bytes", bytes),
               "use one range in place, or two that do not touch");
}

}  // namespace qpmesh::calls
