// How elements of several ranks become one.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include "qpmesh/element.hpp"

namespace qpmesh {

// A reduction's name.
enum class ReductionKind : std::uint8_t {
  sum,
  product,
  min,
  max,
  average,
  bit_and,
  bit_or,
  bit_xor,
  logical_and,
  logical_or,
  logical_xor
};

// Every rank gets the same bits. Integer sum and product wrap; average is the sum, then one
// division (integers truncate); min and max propagate NaN and order -0 before +0; bitwise
// reductions of floating types are Error{bad_argument}; logical ones give 1 or 0. float16 and
// bfloat16 are combined in float and rounded to nearest even once per pass.
struct Reduction {
  ReductionKind kind;  // which one
};

// The reductions there are: what calls take.
inline constexpr Reduction sum{ReductionKind::sum};
inline constexpr Reduction product{ReductionKind::product};
inline constexpr Reduction min{ReductionKind::min};
inline constexpr Reduction max{ReductionKind::max};
inline constexpr Reduction average{ReductionKind::average};
inline constexpr Reduction bit_and{ReductionKind::bit_and};
inline constexpr Reduction bit_or{ReductionKind::bit_or};
inline constexpr Reduction bit_xor{ReductionKind::bit_xor};
inline constexpr Reduction logical_and{ReductionKind::logical_and};
inline constexpr Reduction logical_or{ReductionKind::logical_or};
inline constexpr Reduction logical_xor{ReductionKind::logical_xor};

// A user's reduction: f(const T* left, T* inout, std::size_t element_count) does inout[i] = left[i]
// op inout[i]. It must be associative, and is called with parts of vectors, on any trivially
// copyable T aligned to at most 16 bytes. When it throws, the call on that rank throws the same
// exception, and the communicator fails on every rank; a qpmesh call from inside it is
// Error{bad_argument}. An asynchronous call keeps a copy of f.
template <class F>
struct UserReduction {
  F function;        // as above
  bool commutative;  // operands may come in any order; otherwise in rank order, root or not
};
// Marks a function as one whose operands may come in any order.
template <class F>
UserReduction<F> commutative(F function) {
  return {std::move(function), true};
}
// Marks a function as one whose operands must come in rank order.
template <class F>
UserReduction<F> ordered(F function) {
  return {std::move(function), false};
}

namespace detail {

// A reduction with its types taken off. function and context: a user's.
struct AnyReduction {
  ReductionKind kind = ReductionKind::sum;
  bool commutative = true;
  void (*function)(const void* context, const void* left, void* inout,
                   std::size_t element_count) = nullptr;
  const void* context = nullptr;                                       // the caller's F
  std::shared_ptr<const void> (*copy)(const void* context) = nullptr;  // of it, for who keeps it

  bool operator==(const AnyReduction&) const = default;
};

template <class O>
inline constexpr bool is_user_reduction = false;
template <class F>
inline constexpr bool is_user_reduction<UserReduction<F>> = true;

template <class T>
AnyReduction any_reduction(Reduction reduction) {
  return {.kind = reduction.kind};
}
template <class T, class F>
AnyReduction any_reduction(const UserReduction<F>& reduction) {
  return {.commutative = reduction.commutative,
          .function =
              [](const void* context, const void* left, void* inout, std::size_t element_count) {
                (*static_cast<const F*>(context))(static_cast<const T*>(left),
                                                  static_cast<T*>(inout), element_count);
              },
          .context = &reduction.function,
          .copy = [](const void* context) -> std::shared_ptr<const void> {
            return std::make_shared<F>(*static_cast<const F*>(context));
          }};
}

template <class O, class T>
concept UserReductionOf = is_user_reduction<O> && alignof(T) <= 16 &&
                          std::invocable<const decltype(O::function)&, const T*, T*, std::size_t>;

}  // namespace detail

// O can reduce elements of type T: one of the library's reductions for its element types, or a
// user's function for T.
template <class O, class T>
concept ReductionOf = (std::same_as<O, Reduction> && element_type_of<T>() != ElementType::none) ||
                      detail::UserReductionOf<O, T>;

}  // namespace qpmesh
