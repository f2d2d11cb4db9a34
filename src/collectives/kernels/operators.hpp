// SPDX-License-Identifier: MIT
// The reductions of elements: what every kernel computes, with vectors or without.
#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <type_traits>

#include "qpmesh/element.hpp"
#include "qpmesh/half.hpp"

namespace qpmesh::collectives {

// Of integers on their unsigned twins: overflow wraps instead of being undefined. Types smaller
// than int would be promoted to it.
template <class F>
struct Arithmetic {
  template <class T>
  static T apply(T left, T right) {
    if constexpr (std::floating_point<T>) {
      return F{}(left, right);
    } else {
      using Wide =
          std::conditional_t<(sizeof(T) < sizeof(unsigned)), unsigned, std::make_unsigned_t<T>>;
      return static_cast<T>(F{}(static_cast<Wide>(left), static_cast<Wide>(right)));
    }
  }
};
using Sum = Arithmetic<std::plus<>>;
using Product = Arithmetic<std::multiplies<>>;

// The ordering of floating-point numbers puts -0 before +0, so that the result does not depend on
// who is left.
template <class T>
bool precedes(T left, T right) {
  if constexpr (std::floating_point<T>) {
    if (left == right) return std::signbit(left) && !std::signbit(right);
  }
  return left < right;
}
// NaN wins.
template <class T>
T chosen(T left, T right, bool takes_right) {
  if constexpr (std::floating_point<T>) {
    if (std::isnan(left)) return left;
    if (std::isnan(right)) return right;
  }
  return takes_right ? right : left;
}
struct Min {
  template <class T>
  static T apply(T left, T right) {
    return chosen(left, right, precedes(right, left));
  }
};
struct Max {
  template <class T>
  static T apply(T left, T right) {
    return chosen(left, right, precedes(left, right));
  }
};

template <class F>
struct Logic {
  template <class T>
  static T apply(T left, T right) {
    return static_cast<T>(F{}(left, right));
  }
};
struct Differ {
  template <class T>
  bool operator()(T left, T right) const {
    return (left != T{}) != (right != T{});
  }
};
using BitAnd = Logic<std::bit_and<>>;
using BitOr = Logic<std::bit_or<>>;
using BitXor = Logic<std::bit_xor<>>;
using LogicalAnd = Logic<std::logical_and<>>;
using LogicalOr = Logic<std::logical_or<>>;
using LogicalXor = Logic<Differ>;

// What an operation on T is computed in: for the 16-bit floating types float.
template <class T>
using Computed = std::conditional_t<std::is_arithmetic_v<T>, T, float>;

// f(T{}) for the C++ type of an element type; otherwise none.
template <class Result, class F>
Result with_type(ElementType type, Result none, F&& f) noexcept {
  switch (type) {
    case ElementType::int8: return f(std::int8_t{});
    case ElementType::int16: return f(std::int16_t{});
    case ElementType::int32: return f(std::int32_t{});
    case ElementType::int64: return f(std::int64_t{});
    case ElementType::uint8: return f(std::uint8_t{});
    case ElementType::uint16: return f(std::uint16_t{});
    case ElementType::uint32: return f(std::uint32_t{});
    case ElementType::uint64: return f(std::uint64_t{});
    case ElementType::float32: return f(float{});
    case ElementType::float64: return f(double{});
    case ElementType::float16: return f(float16{});
    case ElementType::bfloat16: return f(bfloat16{});
    case ElementType::none: break;
  }
  return none;
}

// A ReduceKernel without vectors; reduce.cpp has those of all operators for all types that they are
// for.
template <class Operator, class T>
void reduce_scalar(std::byte* target, const std::byte* const* sources, int source_count,
                   std::size_t bytes);

}  // namespace qpmesh::collectives
