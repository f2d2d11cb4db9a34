// SPDX-License-Identifier: MIT
#include "reduction_functions.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <span>

namespace qpmesh::mpi {
namespace {

__extension__ typedef __float128 Quad;  // __extension__ needs a typedef
__extension__ typedef __int128 Signed128;
__extension__ typedef unsigned __int128 Bits128;

// ---- numbers of 16 bits, which not every compiler has ----

float from_half(std::uint16_t half) noexcept {
  const int exponent = half >> 10 & 0x1f;
  const int fraction = half & 0x3ff;
  const std::uint32_t sign = std::uint32_t{half} >> 15 << 31;
  if (exponent == 0x1f)
    return std::bit_cast<float>(sign | 0x7f800000U | static_cast<std::uint32_t>(fraction) << 13);
  const float size = exponent == 0
                         ? std::ldexp(static_cast<float>(fraction), -24)
                         : std::ldexp(static_cast<float>(0x400 + fraction), exponent - 25);
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(size) | sign);
}

// To the nearest, of two that are as near the even one.
std::uint16_t to_half(float value) noexcept {
  constexpr std::uint32_t infinity = 0x7c00;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000;
  const float size = std::fabs(value);
  std::uint32_t half = 0;
  if (std::isnan(value)) {
    half = infinity | 0x200;
  } else if (size >= 65520.0F) {  // half a step above the greatest
    half = infinity;
  } else if (size < 0x1p-14F) {
    half = static_cast<std::uint32_t>(std::lrint(size * 0x1p24F));
  } else {
    const std::uint32_t own = bits & 0x7fffffff;
    const std::uint32_t rounded = own + 0xfff + (own >> 13 & 1);  // may carry into the exponent
    half = (rounded >> 13) - ((127 - 15) << 10);
  }
  return static_cast<std::uint16_t>(sign | half);
}

class Half {
 public:
  Half(float value) noexcept : bits_{to_half(value)} {}
  operator float() const noexcept { return from_half(bits_); }

 private:
  std::uint16_t bits_;
};

// ---- what is done with two values ----

struct Least {
  template <class T>
  T operator()(T left, T right) const {
    return right < left ? right : left;
  }
};
struct Greatest {
  template <class T>
  T operator()(T left, T right) const {
    return left < right ? right : left;
  }
};
// Of truth: != is true of one of two.
template <class Of>
struct Logical {
  template <class T>
  T operator()(T left, T right) const {
    return Of{}(left != 0, right != 0) ? 1 : 0;
  }
};

template <class T>
struct Complex {
  T real;
  T imaginary;

  friend Complex operator+(Complex left, Complex right) {
    return {left.real + right.real, left.imaginary + right.imaginary};
  }
  friend Complex operator*(Complex left, Complex right) {
    return {left.real * right.real - left.imaginary * right.imaginary,
            left.real * right.imaginary + left.imaginary * right.real};
  }
};

// As a struct of C has them. Of equal values the least index counts.
template <class Value, class Index>
struct Pair {
  Value value;
  Index index;
};
template <class Better>
struct Located {
  template <class T>
  T operator()(T left, T right) const {
    if (Better{}(left.value, right.value)) return left;
    if (Better{}(right.value, left.value)) return right;
    return {left.value, std::min(left.index, right.index)};
  }
};

// ---- of all elements ----

template <class T, class Operator>
int apply(void*, const void* left, void* inout, std::size_t count) {
  const auto* const in = static_cast<const T*>(left);
  auto* const out = static_cast<T*>(inout);
  for (std::size_t i = 0; i < count; ++i) out[i] = Operator{}(in[i], out[i]);
  return 0;
}

struct Row {
  MPI_Op operation;
  qpmesh_function function;
};

template <class T>
const Row complex_rows[] = {{MPI_SUM, apply<Complex<T>, std::plus<>>},
                            {MPI_PROD, apply<Complex<T>, std::multiplies<>>}};
template <class T>
const Row floating_rows[] = {{MPI_SUM, apply<T, std::plus<>>},
                             {MPI_PROD, apply<T, std::multiplies<>>},
                             {MPI_MIN, apply<T, Least>},
                             {MPI_MAX, apply<T, Greatest>}};
// Integers wrap: sums and products are those of their bits.
const Row wide_rows[] = {{MPI_SUM, apply<Bits128, std::plus<>>},
                         {MPI_PROD, apply<Bits128, std::multiplies<>>},
                         {MPI_MIN, apply<Signed128, Least>},
                         {MPI_MAX, apply<Signed128, Greatest>},
                         {MPI_BAND, apply<Bits128, std::bit_and<>>},
                         {MPI_BOR, apply<Bits128, std::bit_or<>>},
                         {MPI_BXOR, apply<Bits128, std::bit_xor<>>},
                         {MPI_LAND, apply<Bits128, Logical<std::logical_and<>>>},
                         {MPI_LOR, apply<Bits128, Logical<std::logical_or<>>>},
                         {MPI_LXOR, apply<Bits128, Logical<std::not_equal_to<>>>}};
template <class Value, class Index>
const Row pair_rows[] = {{MPI_MINLOC, apply<Pair<Value, Index>, Located<std::less<>>>},
                         {MPI_MAXLOC, apply<Pair<Value, Index>, Located<std::greater<>>>}};

std::span<const Row> rows_of(const Basic& basic) noexcept {
  switch (basic.category) {
    case Category::complex:
      if (basic.is_long_double) return complex_rows<long double>;
      if (basic.bytes == 2 * sizeof(Half)) return complex_rows<Half>;
      if (basic.bytes == 2 * sizeof(float)) return complex_rows<float>;
      if (basic.bytes == 2 * sizeof(double)) return complex_rows<double>;
      if (basic.bytes == 2 * sizeof(Quad)) return complex_rows<Quad>;
      return {};
    case Category::floating:
      if (basic.is_long_double) return floating_rows<long double>;
      if (basic.bytes == sizeof(Quad)) return floating_rows<Quad>;
      return {};
    case Category::signed_integer:
    case Category::logical:
      if (basic.bytes == sizeof(Bits128)) return wide_rows;
      return {};
    default: return {};
  }
}

struct PairRow {
  MPI_Datatype type;
  std::span<const Row> rows;
};
const PairRow pairs[] = {
    {MPI_FLOAT_INT, pair_rows<float, int>},
    {MPI_DOUBLE_INT, pair_rows<double, int>},
    {MPI_LONG_INT, pair_rows<long, int>},
    {MPI_2INT, pair_rows<int, int>},
    {MPI_SHORT_INT, pair_rows<short, int>},
    {MPI_LONG_DOUBLE_INT, pair_rows<long double, int>},
    {MPI_2REAL, pair_rows<float, float>},
    {MPI_2DOUBLE_PRECISION, pair_rows<double, double>},
    {MPI_2INTEGER, pair_rows<std::int32_t, std::int32_t>},
};

qpmesh_function find(std::span<const Row> rows, MPI_Op operation) noexcept {
  const auto row = std::ranges::find(rows, operation, &Row::operation);
  return row == rows.end() ? nullptr : row->function;
}

}  // namespace

qpmesh_function function_on(const Basic& basic, MPI_Op operation) noexcept {
  return find(rows_of(basic), operation);
}

qpmesh_function function_on_pairs(MPI_Datatype type, MPI_Op operation) noexcept {
  const auto row = std::ranges::find(pairs, type, &PairRow::type);
  return row == std::end(pairs) ? nullptr : find(row->rows, operation);
}

}  // namespace qpmesh::mpi
