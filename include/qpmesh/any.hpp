// SPDX-License-Identifier: MIT
// Ranges whose elements have a type that is known when the program runs: what bindings, arrays and
// tensors have.
#pragma once

#include <cstddef>

#include "qpmesh/element.hpp"

namespace qpmesh {

// How many bytes an element of a type has; 0: none says nothing of it.
constexpr std::size_t bytes_of(ElementType type) noexcept {
  switch (type) {
    case ElementType::none: return 0;
    case ElementType::int8:
    case ElementType::uint8: return 1;
    case ElementType::int16:
    case ElementType::uint16:
    case ElementType::float16:
    case ElementType::bfloat16: return 2;
    case ElementType::int32:
    case ElementType::uint32:
    case ElementType::float32: return 4;
    case ElementType::int64:
    case ElementType::uint64:
    case ElementType::float64: return 8;
  }
  return 0;
}

namespace detail {

// A caller's range.
struct ConstElements {
  const void* data;
  std::size_t element_count;
  std::size_t element_bytes;
  ElementType type;

  bool operator==(const ConstElements&) const = default;
};
struct Elements {
  void* data;
  std::size_t element_count;
  std::size_t element_bytes;
  ElementType type;

  bool operator==(const Elements&) const = default;
  // Implicit: what may be written may be read
  operator ConstElements() const noexcept { return {data, element_count, element_bytes, type}; }
};

}  // namespace detail

// So many elements from a place on. What a call takes as a vector it takes as this, and a peer
// cannot tell the two apart. A user's reduction of it is commutative(f) or ordered(f) of
// f(const void* left, void* inout, std::size_t element_count).
struct AnyConstElements : detail::ConstElements {
  // Of a type.
  constexpr AnyConstElements(const void* from, std::size_t count, ElementType of) noexcept
      : ConstElements{from, count, bytes_of(of), of} {}
  // Of so many bytes each: they can be moved, and reduced by a user's function.
  constexpr AnyConstElements(const void* from, std::size_t count, std::size_t bytes_each) noexcept
      : ConstElements{from, count, bytes_each, ElementType::none} {}
};

// The same, to be written.
struct AnyElements : detail::Elements {
  // Of a type.
  constexpr AnyElements(void* from, std::size_t count, ElementType of) noexcept
      : Elements{from, count, bytes_of(of), of} {}
  // Of so many bytes each.
  constexpr AnyElements(void* from, std::size_t count, std::size_t bytes_each) noexcept
      : Elements{from, count, bytes_each, ElementType::none} {}
};

}  // namespace qpmesh
