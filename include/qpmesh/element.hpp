// SPDX-License-Identifier: MIT
// What may be sent, what may be received into, and what can be reduced.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "qpmesh/detail/standard.hpp"
#include "qpmesh/half.hpp"

namespace qpmesh {

struct AnyConstElements;  // qpmesh/any.hpp
struct AnyElements;

namespace detail {

// Stands for the type of elements that is known when the program runs.
struct AnyElement {};
template <class R>
concept AnyRange = std::same_as<std::remove_cvref_t<R>, AnyConstElements> ||
                   std::same_as<std::remove_cvref_t<R>, AnyElements>;

// What means the same to another rank: neither pointers nor views, which are no more than that.
template <class T>
concept Travels = !AnyRange<T> && !std::same_as<T, AnyElement> && std::is_trivially_copyable_v<T> &&
                  !std::is_pointer_v<T> && !std::is_member_pointer_v<T> &&
                  !std::is_null_pointer_v<T> && !std::ranges::view<T>;

template <class R>
concept ElementRange = std::ranges::contiguous_range<R> && std::ranges::sized_range<R> &&
                       Travels<std::ranges::range_value_t<R>>;

template <class R>
struct ElementOf {
  using type = std::remove_cvref_t<R>;
  using reference = R;
};
template <std::ranges::range R>
struct ElementOf<R> {
  using type = std::ranges::range_value_t<R>;
  using reference = std::ranges::range_reference_t<R>;
};

template <AnyRange R>
struct ElementOf<R> {
  using type = AnyElement;
  using reference = std::conditional_t<std::same_as<std::remove_cvref_t<R>, AnyElements>,
                                       AnyElement&, const AnyElement&>;
};

}  // namespace detail

// One element by itself: a number, an enumeration, a struct. Pointers mean nothing to other ranks.
template <class T>
concept Element = detail::Travels<std::remove_cvref_t<T>> && !std::ranges::range<T>;

// The type of a range's elements, or of an element by itself.
template <class R>
using element_t = typename detail::ElementOf<R>::type;

// Data to send: a contiguous, sized range of trivially copyable elements (vectors, arrays, spans,
// string literals, Buffers), or an element by itself, which is a range of one, or AnyElements.
template <class R>
concept Source = detail::ElementRange<R> || Element<R> || detail::AnyRange<R>;

// Data that outlives the call's expression: what an asynchronous send may keep a pointer to.
template <class R>
concept LastingSource = (detail::ElementRange<R> && std::ranges::borrowed_range<R>) ||
                        (Element<R> && std::is_lvalue_reference_v<R>) || detail::AnyRange<R>;

// Memory to receive into: a Source that outlives the call's expression and is not const.
template <class R>
concept Target =
    LastingSource<R> &&
    !std::is_const_v<std::remove_reference_t<typename detail::ElementOf<R>::reference>>;

// A Target that is a range: what a call in place writes to.
template <class R>
concept TargetRange = Target<R> && !Element<R>;

// Several vectors to receive into: a list of them, or of spans.
template <class R>
concept TargetList =
    std::ranges::forward_range<R> && TargetRange<std::ranges::range_reference_t<R>>;

// One whose vectors outlive the call's expression.
template <class R>
concept LastingTargetList =
    TargetList<R> && (std::ranges::borrowed_range<R> || TargetRange<std::ranges::range_value_t<R>>);

namespace detail {

// The type of the elements of a list's vectors.
template <TargetList R>
using element_of_each_t = element_t<std::ranges::range_reference_t<R>>;

}  // namespace detail

// What an element is to a reduction.
enum class ElementType : std::uint8_t {
  none,  // trivially copyable bytes: can be moved, not reduced
  int8,
  int16,
  int32,
  int64,
  uint8,
  uint16,
  uint32,
  uint64,
  float32,
  float64,
  float16,
  bfloat16
};

namespace detail {

template <class T>
consteval ElementType integer_type_of() {
  constexpr bool is_signed = std::is_signed_v<T>;
  switch (sizeof(T)) {
    case 1: return is_signed ? ElementType::int8 : ElementType::uint8;
    case 2: return is_signed ? ElementType::int16 : ElementType::uint16;
    case 4: return is_signed ? ElementType::int32 : ElementType::uint32;
    case 8: return is_signed ? ElementType::int64 : ElementType::uint64;
    default: return ElementType::none;
  }
}

}  // namespace detail

// Integral types go by size and sign, so that long and long long are one type; enumerations are
// their underlying type; bool is not a number.
template <class T>
consteval ElementType element_type_of() {
  if constexpr (std::is_enum_v<T> && !std::same_as<T, std::byte>)
    return element_type_of<std::underlying_type_t<T>>();
  else if constexpr (std::same_as<T, float>) return ElementType::float32;
  else if constexpr (std::same_as<T, double>) return ElementType::float64;
  else if constexpr (std::same_as<T, qpmesh::float16>) return ElementType::float16;
  else if constexpr (std::same_as<T, qpmesh::bfloat16>) return ElementType::bfloat16;
  else if constexpr (std::integral<T> && !std::same_as<T, bool>)
    return detail::integer_type_of<T>();
  else return ElementType::none;
}

// Two of one element type.
template <class S, class T>
concept SameElements = std::same_as<element_t<S>, element_t<T>>;

}  // namespace qpmesh
