// The reductions of elements: what every kernel computes, with vectors or without.
#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <type_traits>

#include "qpmesh/half.hpp"

namespace qpmesh::collectives {

// Arithmetic on the unsigned twin: overflow wraps instead of being undefined.
// Types smaller than int would be promoted to it.
template <std::integral T, class F>
T wrap(T left, T right, F&& f) {
  using Wide =
      std::conditional_t<(sizeof(T) < sizeof(unsigned)), unsigned, std::make_unsigned_t<T>>;
  return static_cast<T>(f(static_cast<Wide>(left), static_cast<Wide>(right)));
}

// NaN wins; otherwise the ordering puts -0 before +0, so that the result does not depend on who is
// left.
template <std::floating_point T>
bool precedes(T left, T right) {
  return left < right || (left == right && std::signbit(left) && !std::signbit(right));
}

struct Sum {
  template <class T>
  static T apply(T left, T right) {
    if constexpr (std::floating_point<T>) return left + right;
    else return wrap(left, right, [](auto a, auto b) { return a + b; });
  }
};
struct Product {
  template <class T>
  static T apply(T left, T right) {
    if constexpr (std::floating_point<T>) return left * right;
    else return wrap(left, right, [](auto a, auto b) { return a * b; });
  }
};
struct Min {
  template <class T>
  static T apply(T left, T right) {
    if constexpr (std::floating_point<T>) {
      if (std::isnan(left)) return left;
      return std::isnan(right) || precedes(right, left) ? right : left;
    } else {
      return right < left ? right : left;
    }
  }
};
struct Max {
  template <class T>
  static T apply(T left, T right) {
    if constexpr (std::floating_point<T>) {
      if (std::isnan(left)) return left;
      return std::isnan(right) || precedes(left, right) ? right : left;
    } else {
      return left < right ? right : left;
    }
  }
};
struct BitAnd {
  template <class T>
  static T apply(T left, T right) {
    return static_cast<T>(left & right);
  }
};
struct BitOr {
  template <class T>
  static T apply(T left, T right) {
    return static_cast<T>(left | right);
  }
};
struct BitXor {
  template <class T>
  static T apply(T left, T right) {
    return static_cast<T>(left ^ right);
  }
};
struct LogicalAnd {
  template <class T>
  static T apply(T left, T right) {
    return static_cast<T>(left != T{} && right != T{});
  }
};
struct LogicalOr {
  template <class T>
  static T apply(T left, T right) {
    return static_cast<T>(left != T{} || right != T{});
  }
};
struct LogicalXor {
  template <class T>
  static T apply(T left, T right) {
    return static_cast<T>((left != T{}) != (right != T{}));
  }
};

// What an operation on T is computed in.
template <class T>
struct Computed {
  using Type = T;
};
template <>
struct Computed<float16> {
  using Type = float;
};
template <>
struct Computed<bfloat16> {
  using Type = float;
};

// A ReduceKernel without vectors; reduce.cpp has those of all operators for all types that they are
// for.
template <class Operator, class T>
void reduce_scalar(std::byte* target, const std::byte* const* sources, int source_count,
                   std::size_t bytes);

}  // namespace qpmesh::collectives
