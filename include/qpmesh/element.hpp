// What may be sent, what may be received into, and what can be reduced.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <type_traits>

#include "qpmesh/half.hpp"

namespace qpmesh {

// Data to send: contiguous, sized, of trivially copyable elements. Vectors,
// arrays, spans, string literals, Buffers.
template <class R>
concept Source = std::ranges::contiguous_range<R> && std::ranges::sized_range<R> &&
                 std::is_trivially_copyable_v<std::ranges::range_value_t<R>>;

// Data that outlives the call's expression: what an asynchronous send may keep a pointer to.
template <class R>
concept LastingSource = Source<R> && std::ranges::borrowed_range<R>;

// Memory to receive into: a Source that outlives the call's expression and is not const.
template <class R>
concept Target = LastingSource<R> &&
                 !std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<R>>>;

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

// Integral types go by size and sign, so that long and long long are one type; bool is not a
// number.
template <class T>
consteval ElementType element_type_of() {
  if constexpr (std::same_as<T, float>) return ElementType::float32;
  else if constexpr (std::same_as<T, double>) return ElementType::float64;
  else if constexpr (std::same_as<T, qpmesh::float16>) return ElementType::float16;
  else if constexpr (std::same_as<T, qpmesh::bfloat16>) return ElementType::bfloat16;
  else if constexpr (std::integral<T> && !std::same_as<T, bool>)
    return detail::integer_type_of<T>();
  else return ElementType::none;
}

// Elements that the library's own reductions take.
template <class R>
concept Reducible =
    Source<R> && element_type_of<std::ranges::range_value_t<R>>() != ElementType::none;

// Two ranges of one element type.
template <class S, class T>
concept SameElements = std::same_as<std::ranges::range_value_t<S>, std::ranges::range_value_t<T>>;

}  // namespace qpmesh
