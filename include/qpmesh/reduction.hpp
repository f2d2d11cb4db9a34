// SPDX-License-Identifier: MIT
// How elements of several ranks become one.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>

#include "qpmesh/detail/standard.hpp"
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
// reductions of floating types are Error{bad_argument}; logical ones give 1 or 0, but a single
// operand, as that of rank 0 in a scan, as it is. float16 and
// bfloat16 are combined in float and rounded to nearest even once per pass. Of types without an
// ElementType, long double is reduced as other numbers are, but for average; of complex numbers
// there are sum and product; of bool product, min, max, bitwise and logical ones, which are and, or
// and xor. What means nothing for a type is Error{bad_argument}.
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

// A user's reduction: a function of two elements, T f(T left, T right), or of two arrays,
// f(const T* left, T* inout, std::size_t element_count), which does inout[i] = left[i] op inout[i].
// It must be associative, and is called with parts of vectors, on any trivially copyable T aligned
// to at most 16 bytes. When it throws, the call on that rank throws the same exception, and the
// communicator fails on every rank; a qpmesh call from inside it is Error{bad_argument}. An
// asynchronous call keeps a copy of f.
template <class F>
struct UserReduction {
  F function;        // as above
  bool commutative;  // operands may come in any order; otherwise in rank order, root or not
};
// Marks a function as one whose operands may come in any order.
template <class F>
constexpr UserReduction<F> commutative(F function) {
  return {std::move(function), true};
}
// Marks a function as one whose operands must come in rank order: a function of two elements that
// is not marked is taken for one. Those of <functional> on the library's element types (plus,
// multiplies, bit_and, bit_or, bit_xor, logical_and, logical_or) are the library's own.
template <class F>
constexpr UserReduction<F> ordered(F function) {
  return {std::move(function), false};
}

// A value, and where it is: a rank, or an index of the caller's.
template <class T>
struct Located {
  T value;                                          // what is compared
  std::int64_t place;                               // of equal values the least place counts
  bool operator==(const Located&) const = default;  // value and place
};

namespace detail {

struct LeastLocated {
  template <class T>
  constexpr Located<T> operator()(const Located<T>& a, const Located<T>& b) const {
    if (a.value < b.value || (!(b.value < a.value) && a.place < b.place)) return a;
    return b;
  }
};
struct GreatestLocated {
  template <class T>
  constexpr Located<T> operator()(const Located<T>& a, const Located<T>& b) const {
    if (b.value < a.value || (!(a.value < b.value) && a.place < b.place)) return a;
    return b;
  }
};

}  // namespace detail

// The least and the greatest of Located values.
inline constexpr auto min_located = commutative(detail::LeastLocated{});
inline constexpr auto max_located = commutative(detail::GreatestLocated{});

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

template <class F, class T>
concept ArrayFunction = std::invocable<const F&, const T*, T*, std::size_t>;
template <class F, class T>
concept ElementFunction = requires(const F& function, const T& element) {
  { function(element, element) } -> std::convertible_to<T>;
};

// The library's own reduction that does to elements of T what a function object of <functional>
// does.
template <class O, class T>
inline constexpr std::optional<ReductionKind> kind_of = std::nullopt;
template <class T>
inline constexpr std::optional kind_of<std::plus<>, T> = ReductionKind::sum;
template <class T>
inline constexpr std::optional kind_of<std::plus<T>, T> = ReductionKind::sum;
template <class T>
inline constexpr std::optional kind_of<std::multiplies<>, T> = ReductionKind::product;
template <class T>
inline constexpr std::optional kind_of<std::multiplies<T>, T> = ReductionKind::product;
template <class T>
inline constexpr std::optional kind_of<std::bit_and<>, T> = ReductionKind::bit_and;
template <class T>
inline constexpr std::optional kind_of<std::bit_and<T>, T> = ReductionKind::bit_and;
template <class T>
inline constexpr std::optional kind_of<std::bit_or<>, T> = ReductionKind::bit_or;
template <class T>
inline constexpr std::optional kind_of<std::bit_or<T>, T> = ReductionKind::bit_or;
template <class T>
inline constexpr std::optional kind_of<std::bit_xor<>, T> = ReductionKind::bit_xor;
template <class T>
inline constexpr std::optional kind_of<std::bit_xor<T>, T> = ReductionKind::bit_xor;
template <class T>
inline constexpr std::optional kind_of<std::logical_and<>, T> = ReductionKind::logical_and;
template <class T>
inline constexpr std::optional kind_of<std::logical_and<T>, T> = ReductionKind::logical_and;
template <class T>
inline constexpr std::optional kind_of<std::logical_or<>, T> = ReductionKind::logical_or;
template <class T>
inline constexpr std::optional kind_of<std::logical_or<T>, T> = ReductionKind::logical_or;

// One look at the type for all elements of a call.
template <class T, class F>
void apply(const void* context, const void* left, void* inout, std::size_t element_count) {
  const F& function = *static_cast<const F*>(context);
  const T* const from = static_cast<const T*>(left);
  T* const into = static_cast<T*>(inout);
  if constexpr (ArrayFunction<F, T>) {
    function(from, into, element_count);
  } else {
    for (std::size_t i = 0; i < element_count; ++i)
      into[i] = static_cast<T>(function(from[i], std::as_const(into[i])));
  }
}

template <class T, class F>
AnyReduction user_reduction(const F& function, bool commutative) {
  return {.commutative = commutative,
          .function = &apply<T, F>,
          .context = &function,
          .copy = [](const void* context) -> std::shared_ptr<const void> {
            return std::make_shared<F>(*static_cast<const F*>(context));
          }};
}

// std::complex, and what is like it.
template <class T>
concept ComplexNumber = requires(const T& number, typename T::value_type part) {
  requires std::floating_point<typename T::value_type>;
  { number.real() } -> std::convertible_to<typename T::value_type>;
  { number.imag() } -> std::convertible_to<typename T::value_type>;
  T{part, part};
};

// Types without an ElementType for which the library's own reductions mean something all the same:
// those that do are functions.
template <class T>
concept NamedByFunctions =
    std::same_as<T, bool> || std::same_as<T, long double> || ComplexNumber<T>;

// As those of <cmath>, which costs each file of a user a tenth of a second.
template <class T>
constexpr bool is_nan(const T& a) {
  return a != a;
}
template <class T>
constexpr bool is_negative(const T& a) {
  return __builtin_signbit(static_cast<long double>(a)) != 0;
}

// NaN is passed on, and -0 comes before +0.
struct LeastNumber {
  template <class T>
  constexpr T operator()(const T& a, const T& b) const {
    if (is_nan(a) || a < b) return a;
    return is_nan(b) || b < a || is_negative(b) ? b : a;
  }
};
struct GreatestNumber {
  template <class T>
  constexpr T operator()(const T& a, const T& b) const {
    if (is_nan(a) || b < a) return a;
    return is_nan(b) || a < b || !is_negative(b) ? b : a;
  }
};

struct OneOfTwo {
  template <class T>
  constexpr bool operator()(const T& a, const T& b) const {
    return static_cast<bool>(a) != static_cast<bool>(b);
  }
};

// A function object without state.
template <class F>
inline constexpr F function_object{};
template <class T, class F>
AnyReduction reduction_by() {
  return {.function = &apply<T, F>, .context = &function_object<F>};
}

// Without a function: it means nothing for T.
template <NamedByFunctions T>
AnyReduction named_reduction(ReductionKind kind) {
  using enum ReductionKind;
  if constexpr (std::same_as<T, bool>) {
    if (kind == product || kind == min || kind == bit_and || kind == logical_and)
      return reduction_by<T, std::logical_and<>>();
    if (kind == max || kind == bit_or || kind == logical_or)
      return reduction_by<T, std::logical_or<>>();
    if (kind == bit_xor || kind == logical_xor) return reduction_by<T, OneOfTwo>();
  } else {
    if (kind == sum) return reduction_by<T, std::plus<>>();
    if (kind == product) return reduction_by<T, std::multiplies<>>();
  }
  if constexpr (std::same_as<T, long double>) {
    if (kind == min) return reduction_by<T, LeastNumber>();
    if (kind == max) return reduction_by<T, GreatestNumber>();
    if (kind == logical_and) return reduction_by<T, std::logical_and<>>();
    if (kind == logical_or) return reduction_by<T, std::logical_or<>>();
    if (kind == logical_xor) return reduction_by<T, OneOfTwo>();
  }
  return {.kind = kind};
}

template <class T>
AnyReduction any_reduction(Reduction reduction) {
  if constexpr (NamedByFunctions<T>) return named_reduction<T>(reduction.kind);
  else return {.kind = reduction.kind};
}
template <class T, class F>
AnyReduction any_reduction(const UserReduction<F>& reduction) {
  return user_reduction<T>(reduction.function, reduction.commutative);
}
template <class T, class F>
AnyReduction any_reduction(const F& function) {
  constexpr bool is_number = element_type_of<T>() != ElementType::none;
  if constexpr (kind_of<F, T> && is_number) return {.kind = *kind_of<F, T>};
  else if constexpr (kind_of<F, T> && NamedByFunctions<T> && !std::same_as<T, bool>)
    return named_reduction<T>(*kind_of<F, T>);
  else return user_reduction<T>(function, false);
}

template <class O, class T>
concept UserReductionOf =
    is_user_reduction<O> && alignof(T) <= 16 &&
    (ArrayFunction<decltype(O::function), T> || ElementFunction<decltype(O::function), T>);

}  // namespace detail

// O can reduce elements of type T: one of the library's reductions for its element types, a user's
// function for T, or a function of two elements by itself.
template <class O, class T>
concept ReductionOf =
    (std::same_as<O, Reduction> &&
     (element_type_of<T>() != ElementType::none || std::same_as<T, detail::AnyElement> ||
      detail::NamedByFunctions<T>)) ||
    detail::UserReductionOf<O, T> || (alignof(T) <= 16 && detail::ElementFunction<O, T>);

}  // namespace qpmesh
