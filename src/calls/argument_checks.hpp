// SPDX-License-Identifier: MIT
// What a caller's arguments must be before anything is sent or counted. Every check throws
// Error{bad_argument} with the value and what to do.
#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <string_view>

#include "base/bytes.hpp"
#include "base/errors.hpp"
#include "qpmesh/detail/untyped.hpp"
#include "qpmesh/request.hpp"

namespace qpmesh::calls {

using base::bad_argument;

[[noreturn]] void bad_peer(int peer, int size, std::string_view operation, std::string_view what);
// Of a kind for which there is no kernel.
[[noreturn]] void bad_reduction(ReductionKind kind, ElementType type, std::string_view operation);
// There is a block for each rank, and every one lies inside the range of element_count elements, or
// is a range by itself.
void check_layout(const detail::AnyLayout& layout, std::size_t element_count, int size,
                  std::string_view name, std::string_view operation);
// Blocks that are written have nothing in common.
void check_no_overlap(const detail::AnyLayout& layout, std::size_t element_bytes,
                      std::string_view operation);

// A vector's memory, block by block.
struct BlockMemory {
  const void* data;
  std::span<const std::size_t> lengths;  // in elements
  std::span<const std::size_t> offsets_bytes;
  std::size_t element_bytes;
};
// Blocks of an alltoall of which some lie apart: what is received into is not sent.
void check_disjoint(const BlockMemory& out, const BlockMemory& in, std::string_view operation);

// The bytes of so many elements; checked, because a count may come from arithmetic that went wrong.
inline std::size_t checked_bytes(std::size_t element_count, std::size_t element_bytes,
                                 std::string_view operation) {
  constexpr auto bytes_max = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());
  const std::size_t bytes =
      base::checked_multiply(element_count, element_bytes).value_or(bytes_max + 1);
  if (bytes > bytes_max) [[unlikely]] {
    bad_argument(operation, "a negative count, turned unsigned, looks like this",
                 "{} elements of {} bytes are more than memory can hold", element_count,
                 element_bytes);
  }
  return bytes;
}

// The bytes of a caller's range.
template <class Range>
std::size_t checked_bytes(const Range& range, std::string_view operation) {
  const std::size_t bytes = checked_bytes(range.element_count, range.element_bytes, operation);
  if (range.data == nullptr && bytes > 0) [[unlikely]] {
    bad_argument(operation, "a range without memory has a count of 0", "null with a count of {}",
                 range.element_count);
  }
  return bytes;
}

using base::overlap;

// Both with their bytes.
inline void check_disjoint(const detail::ConstElements& out, const detail::Elements& in,
                           std::string_view operation) {
  const std::size_t out_bytes = checked_bytes(out, operation);
  const std::size_t in_bytes = checked_bytes(in, operation);
  if (overlap(out.data, out_bytes, in.data, in_bytes)) [[unlikely]] {
    bad_argument(operation, "send from one range and receive into another",
                 "the {} bytes to send and the {} bytes to receive into overlap", out_bytes,
                 in_bytes);
  }
}

// AnyElements may differ in what a template sees alike.
inline void check_types(const detail::ConstElements& in, const detail::ConstElements& out,
                        std::string_view operation) {
  if (in.type == out.type && in.element_bytes == out.element_bytes) [[likely]]
    return;
  bad_argument(operation, "give in and out elements of one type",
               "in has elements of {} bytes, out has others, of {} bytes", in.element_bytes,
               out.element_bytes);
}

// in and out of a reduction: equal counts; the same memory or none in common.
inline void check_pair(const detail::ConstElements& in, const detail::Elements& out,
                       std::string_view operation) {
  const std::size_t bytes = checked_bytes(in, operation);
  checked_bytes(out, operation);
  check_types(in, out, operation);
  if (in.element_count != out.element_count) [[unlikely]] {
    bad_argument(operation, "give in and out equal counts", "in has {} elements, out has {}",
                 in.element_count, out.element_count);
  }
  if (in.data != out.data && overlap(in.data, bytes, out.data, bytes)) [[unlikely]] {
    bad_argument(operation, "use one range in place, or two that do not touch",
                 "in and out overlap without being the same {} bytes", bytes);
  }
}

// `one` lies at the given offset of `all`, or has nothing in common with it.
inline void check_in_place(const detail::ConstElements& all, std::size_t offset_bytes,
                           const detail::ConstElements& one, std::string_view operation) {
  const std::size_t all_bytes = all.element_count * all.element_bytes;
  const std::size_t one_bytes = one.element_count * one.element_bytes;
  const bool in_place = static_cast<const std::byte*>(all.data) + offset_bytes == one.data;
  if (!in_place && overlap(all.data, all_bytes, one.data, one_bytes)) [[unlikely]] {
    bad_argument(operation,
                 "in place, a rank's range is its own block; otherwise the two do not touch",
                 "the {} bytes of this rank and the {} bytes of all overlap, but not at its block",
                 one_bytes, all_bytes);
  }
}

// what: "destination", "source" or "root".
inline void check_peer(int peer, int size, bool any_allowed, std::string_view operation,
                       std::string_view what) {
  if (static_cast<unsigned>(peer) < static_cast<unsigned>(size) ||
      (any_allowed && peer == any_source)) [[likely]]
    return;
  bad_peer(peer, size, operation, what);
}

inline void check_tag(int tag, bool any_allowed, std::string_view operation) {
  if (tag >= 0 || (any_allowed && tag == any_tag)) [[likely]]
    return;
  bad_argument(operation, "tags are 0 to 2147483647", "tag {} is negative", tag);
}

inline void check_options(const CallOptions& options, std::string_view operation) {
  if (!options.timeout.is_valid()) [[unlikely]] {
    static_assert(TimeLimit::max.count() == 31'536'000'000);
    bad_argument(operation, "1 to 31536000000 ms, no_limit, or leave it out for QPMESH_TIMEOUT_MS",
                 "a timeout of {} ms", options.timeout.ms_or(0));
  }
}

}  // namespace qpmesh::calls
