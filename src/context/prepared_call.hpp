// SPDX-License-Identifier: MIT
// A collective's call that was checked, and what follows from its arguments. A program calls most
// of its collectives again and again with the same ones: a call like the last one of its collective
// is not checked again, nor one that differs in the root alone. Layouts are alike by what stands in
// them: their owner may drop or change them when the call has returned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collectives/algorithm.hpp"
#include "context/call_history.hpp"
#include "qpmesh/detail/untyped.hpp"

namespace qpmesh::context {

// A copy of a layout that was read, and where its blocks begin.
struct KeptLayout {
  std::vector<std::size_t> counts{};
  std::vector<std::size_t> displacements{};
  bool is_list = false;
  std::vector<std::size_t> offsets_bytes{};

  bool is_like(const detail::AnyLayout& other) const noexcept {
    return is_list == other.is_list && is_like(counts, other.counts) &&
           is_like(displacements, other.displacements);
  }

 private:
  // A loop: most lists are shorter than a call of memcmp is long.
  static bool is_like(const std::vector<std::size_t>& kept,
                      std::span<const std::size_t> other) noexcept {
    if (kept.size() != other.size()) return false;
    for (std::size_t i = 0; i < kept.size(); ++i) {
      if (kept[i] != other[i]) return false;
    }
    return true;
  }
};

// Of one communicator, where all that the checks look at beside the call stays the same.
struct PreparedCall {
  bool lasts = false;     // false: its call was refused
  bool has_more = false;  // than `out` and a root: what else there is need not be compared
  detail::AnyCollective what{Collective::barrier};  // its layouts are the caller's: not to be read
  collectives::CallShape shape{};
  collectives::Arguments arguments;  // set from `what`
  // With the algorithm that ran it last, and its signature.
  CollectiveCall call{.operation = "none"};
  std::uint32_t signature = 0;
  bool moves_nothing = false;
  collectives::DivideKernel divide = nullptr;  // average: after the sum
  std::size_t divided_count = 0;               // elements of out, on this rank
  bool reads_layouts = false;  // false: this rank has none, or they say nothing here
  KeptLayout in_layout{};
  KeptLayout out_layout{};

  // But for the root. Both are of one collective, and this rank is the root of both, or of neither.
  bool is_like(const detail::AnyCollective& other) const noexcept {
    if (!lasts || what.out != other.out) return false;
    if (!has_more) return true;
    return what.in == other.in && what.reduction == other.reduction &&
           what.has_layout() == other.has_layout() && (!reads_layouts || has_like_layouts(other));
  }

 private:
  bool has_like_layouts(const detail::AnyCollective& other) const noexcept {
    return is_like(what.in_layout, other.in_layout, in_layout) &&
           is_like(what.out_layout, other.out_layout, out_layout);
  }
  static bool is_like(const detail::AnyLayout* last, const detail::AnyLayout* now,
                      const KeptLayout& kept) noexcept {
    if (last == nullptr || now == nullptr) return last == now;
    return kept.is_like(*now);
  }
};

}  // namespace qpmesh::context
