// SPDX-License-Identifier: MIT
// Reductions of two elements, written from the contract in reduction.hpp and not from the kernels:
// integers modulo 2^64 and cut to size, orders by a key, halves in float and rounded once.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <tuple>
#include <type_traits>

#include "qpmesh/element.hpp"
#include "qpmesh/reduction.hpp"

namespace qpmesh::test {

template <class T>
inline constexpr bool is_half = std::same_as<T, float16> || std::same_as<T, bfloat16>;

inline bool is_bitwise(ReductionKind kind) {
  return kind == ReductionKind::bit_and || kind == ReductionKind::bit_or ||
         kind == ReductionKind::bit_xor;
}

// average: of the sum; its division comes last.
template <class T>
T reference(ReductionKind kind, T left, T right) {
  if constexpr (is_half<T>) {
    return T{reference(kind, static_cast<float>(left), static_cast<float>(right))};
  } else {
    const bool l = left != T{0};
    const bool r = right != T{0};
    switch (kind) {
      case ReductionKind::logical_and: return static_cast<T>(l && r ? 1 : 0);
      case ReductionKind::logical_or: return static_cast<T>(l || r ? 1 : 0);
      case ReductionKind::logical_xor: return static_cast<T>(l == r ? 0 : 1);
      default: break;
    }
    if constexpr (std::floating_point<T>) {
      const auto ordered = [](T value) { return std::tuple{value, std::signbit(value) ? 0 : 1}; };
      switch (kind) {
        case ReductionKind::product: return left * right;
        case ReductionKind::min:
        case ReductionKind::max: {
          if (std::isnan(left) || std::isnan(right)) return std::numeric_limits<T>::quiet_NaN();
          const bool left_first = ordered(left) < ordered(right);
          return left_first == (kind == ReductionKind::min) ? left : right;
        }
        default: return left + right;
      }
    } else {
      const std::uint64_t a = static_cast<std::make_unsigned_t<T>>(left);
      const std::uint64_t b = static_cast<std::make_unsigned_t<T>>(right);
      switch (kind) {
        case ReductionKind::product: return static_cast<T>(a * b);
        case ReductionKind::min: return left < right ? left : right;
        case ReductionKind::max: return left > right ? left : right;
        case ReductionKind::bit_and: return static_cast<T>(a & b);
        case ReductionKind::bit_or: return static_cast<T>(a | b);
        case ReductionKind::bit_xor: return static_cast<T>(a ^ b);
        default: return static_cast<T>(a + b);
      }
    }
  }
}

}  // namespace qpmesh::test
