#include "collectives/kernels/reduce.hpp"

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <type_traits>

namespace qpmesh::collectives {
namespace {

// Arithmetic on the unsigned twin: overflow wraps instead of being undefined.
// Types smaller than int would be promoted to it.
template <std::integral T, class F>
T wrap(T left, T right, F&& f) {
  using Wide = std::conditional_t<(sizeof(T) < sizeof(unsigned)), unsigned, std::make_unsigned_t<T>>;
  return static_cast<T>(f(static_cast<Wide>(left), static_cast<Wide>(right)));
}

// NaN wins; otherwise the ordering puts -0 before +0, so that the result does not depend on who is left.
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

template <class Operator, class T>
void reduce(std::byte* target, const std::byte* const* sources, int source_count, std::size_t element_count) {
  using C = typename Computed<T>::Type;
  const auto source = [&](int index) { return reinterpret_cast<const T*>(sources[index]); };
  auto* const t = reinterpret_cast<T*>(target);
  if (source_count == 2) {
    const T* const left = source(0);
    const T* const right = source(1);
    for (std::size_t i = 0; i < element_count; ++i)
      t[i] = static_cast<T>(Operator::apply(static_cast<C>(left[i]), static_cast<C>(right[i])));
    return;
  }
  // Some elements at a time, from all sources before the target is touched: it may be one of them.
  constexpr std::size_t part_max = 64;
  C part[part_max];
  for (std::size_t begin = 0; begin < element_count; begin += part_max) {
    const std::size_t count = std::min(part_max, element_count - begin);
    for (std::size_t i = 0; i < count; ++i) part[i] = static_cast<C>(source(0)[begin + i]);
    for (int index = 1; index < source_count; ++index) {
      const T* const right = source(index) + begin;
      for (std::size_t i = 0; i < count; ++i) part[i] = Operator::apply(part[i], static_cast<C>(right[i]));
    }
    for (std::size_t i = 0; i < count; ++i) t[begin + i] = static_cast<T>(part[i]);
  }
}

// A divisor may not fit the small integer types: 300 ranks, int8.
template <class T>
void divide(std::byte* data, std::size_t element_count, int divisor) {
  using C = typename Computed<T>::Type;
  using Wide = std::conditional_t<std::floating_point<C>, C,
                                  std::conditional_t<std::is_signed_v<C>, std::int64_t, std::uint64_t>>;
  auto* const d = reinterpret_cast<T*>(data);
  for (std::size_t i = 0; i < element_count; ++i)
    d[i] = static_cast<T>(static_cast<Wide>(static_cast<C>(d[i])) / static_cast<Wide>(divisor));
}

template <class T>
ReduceKernel kernel_for(ReductionKind kind) noexcept {
  switch (kind) {
    case ReductionKind::sum:
    case ReductionKind::average: return reduce<Sum, T>;
    case ReductionKind::product: return reduce<Product, T>;
    case ReductionKind::min: return reduce<Min, T>;
    case ReductionKind::max: return reduce<Max, T>;
    case ReductionKind::logical_and: return reduce<LogicalAnd, T>;
    case ReductionKind::logical_or: return reduce<LogicalOr, T>;
    case ReductionKind::logical_xor: return reduce<LogicalXor, T>;
    default: break;
  }
  if constexpr (std::integral<T>) {
    switch (kind) {
      case ReductionKind::bit_and: return reduce<BitAnd, T>;
      case ReductionKind::bit_or: return reduce<BitOr, T>;
      case ReductionKind::bit_xor: return reduce<BitXor, T>;
      default: break;
    }
  }
  return nullptr;
}

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

}  // namespace

ReduceKernel reduce_kernel(ReductionKind kind, ElementType type) noexcept {
  return with_type(type, ReduceKernel{nullptr}, [kind]<class T>(T) { return kernel_for<T>(kind); });
}

DivideKernel divide_kernel(ElementType type) noexcept {
  return with_type(type, DivideKernel{nullptr}, []<class T>(T) -> DivideKernel { return divide<T>; });
}

std::size_t element_bytes(ElementType type) noexcept {
  return with_type(type, std::size_t{0}, []<class T>(T) { return sizeof(T); });
}

}  // namespace qpmesh::collectives
