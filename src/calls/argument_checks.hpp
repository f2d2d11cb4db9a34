// What a caller's arguments must be before anything is sent or counted. Every check throws
// Error{bad_argument} with the value and what to do; the tests that pass are inline, the words for
// those that do not are elsewhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

#include "base/bytes.hpp"
#include "qpmesh/detail/untyped.hpp"
#include "qpmesh/request.hpp"

namespace qpmesh::calls {

[[noreturn]] void bad_count(std::size_t element_count, std::size_t element_bytes,
                            std::string_view operation);
[[noreturn]] void bad_null(std::size_t element_count, std::string_view operation);
[[noreturn]] void bad_peer(int peer, int size, std::string_view operation, std::string_view what);
[[noreturn]] void bad_tag(int tag, std::string_view operation);
[[noreturn]] void bad_timeout(std::int64_t timeout_ms, std::string_view operation);
[[noreturn]] void bad_reduction(Reduction reduction, std::string_view operation);
[[noreturn]] void bad_prefix_average(std::string_view operation);
// Of collectives whose vectors are cut into blocks. Names are those of the call's parameters.
[[noreturn]] void bad_displacements(std::string_view operation);
[[noreturn]] void bad_total(std::size_t all, std::size_t one, int size, std::string_view all_name,
                            std::string_view one_name, std::string_view operation);
[[noreturn]] void bad_even_blocks(std::size_t in, std::size_t out, int size,
                                  std::string_view operation);
[[noreturn]] void bad_block(std::size_t count, std::size_t expected, std::string_view name,
                            std::string_view expected_name, std::string_view operation);
// Of ranges that overlap.
[[noreturn]] void bad_in_place(std::size_t all_bytes, std::size_t one_bytes,
                               std::string_view operation);
[[noreturn]] void bad_disjoint(std::size_t out_bytes, std::size_t in_bytes,
                               std::string_view operation);
[[noreturn]] void bad_pair(std::size_t bytes, std::string_view operation);
[[noreturn]] void bad_counts(std::size_t in, std::size_t out, std::string_view operation);
// Every block lies inside the range of element_count elements.
void check_layout(const BlockLayout& layout, std::size_t element_count, int size,
                  std::string_view name, std::string_view operation);
// Blocks that are written have nothing in common.
void check_no_overlap(const BlockLayout& layout, std::string_view operation);

inline detail::ConstElements as_const(const detail::Elements& range) noexcept {
  return {range.data, range.element_count, range.element_bytes, range.type};
}
inline const detail::ConstElements& as_const(const detail::ConstElements& range) noexcept {
  return range;
}

// The bytes of so many elements; checked, because a count may come from arithmetic that went wrong.
inline std::size_t checked_bytes(std::size_t element_count, std::size_t element_bytes,
                                 std::string_view operation) {
  constexpr auto bytes_max = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());
  const auto bytes = base::checked_multiply(element_count, element_bytes);
  if (!bytes || *bytes > bytes_max) [[unlikely]]
    bad_count(element_count, element_bytes, operation);
  return *bytes;
}

// The bytes of a caller's range.
template <class Range>
std::size_t checked_bytes(const Range& range, std::string_view operation) {
  const std::size_t bytes = checked_bytes(range.element_count, range.element_bytes, operation);
  if (range.data == nullptr && bytes > 0) [[unlikely]]
    bad_null(range.element_count, operation);
  return bytes;
}

inline bool overlap(const void* a, std::size_t a_bytes, const void* b,
                    std::size_t b_bytes) noexcept {
  const auto first = reinterpret_cast<std::uintptr_t>(a);
  const auto second = reinterpret_cast<std::uintptr_t>(b);
  return a_bytes > 0 && b_bytes > 0 && first < second + b_bytes && second < first + a_bytes;
}

// Both with their bytes.
inline void check_disjoint(const detail::ConstElements& out, const detail::Elements& in,
                           std::string_view operation) {
  const std::size_t out_bytes = checked_bytes(out, operation);
  const std::size_t in_bytes = checked_bytes(in, operation);
  if (overlap(out.data, out_bytes, in.data, in_bytes)) [[unlikely]]
    bad_disjoint(out_bytes, in_bytes, operation);
}

// in and out of a reduction: equal counts; the same memory or none in common.
inline void check_pair(const detail::ConstElements& in, const detail::Elements& out,
                       std::string_view operation) {
  const std::size_t bytes = checked_bytes(in, operation);
  checked_bytes(out, operation);
  if (in.element_count != out.element_count) [[unlikely]]
    bad_counts(in.element_count, out.element_count, operation);
  if (in.data != out.data && overlap(in.data, bytes, out.data, bytes)) [[unlikely]]
    bad_pair(bytes, operation);
}

// `one` lies at the given offset of `all`, or has nothing in common with it.
inline void check_in_place(const detail::ConstElements& all, std::size_t offset_bytes,
                           const detail::ConstElements& one, std::string_view operation) {
  const std::size_t all_bytes = all.element_count * all.element_bytes;
  const std::size_t one_bytes = one.element_count * one.element_bytes;
  const bool in_place = static_cast<const std::byte*>(all.data) + offset_bytes == one.data;
  if (!in_place && overlap(all.data, all_bytes, one.data, one_bytes)) [[unlikely]]
    bad_in_place(all_bytes, one_bytes, operation);
}

// what: "destination" or "source".
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
  bad_tag(tag, operation);
}

inline void check_options(const CallOptions& options, std::string_view operation) {
  if (options.timeout_ms < CallOptions::timeout_from_options ||
      options.timeout_ms > CallOptions::timeout_ms_max) [[unlikely]]
    bad_timeout(options.timeout_ms, operation);
}

}  // namespace qpmesh::calls
