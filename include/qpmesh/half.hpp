// SPDX-License-Identifier: MIT
// The two 16-bit floating types: storage and exact conversions. Arithmetic is done in float.
#pragma once

#include <bit>
#include <cstdint>

namespace qpmesh {

// IEEE 754 binary16: 1 sign, 5 exponent, 10 fraction bits; largest finite value 65504.
struct float16 {  // NOLINT(readability-identifier-naming): named as the numbers of <cstdint> are
  std::uint16_t bits = 0;  // the whole of it

  // Zero; rounded to nearest, ties to even; of given bits.
  float16() = default;
  constexpr explicit float16(float value) noexcept : bits{from_float(value)} {}
  static constexpr float16 of_bits(std::uint16_t bits) noexcept {
    float16 half;
    half.bits = bits;
    return half;
  }
  // Exact.
  constexpr explicit operator float() const noexcept {
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
    const std::uint32_t magnitude = bits & 0x7fffU;
    if (magnitude >= 0x7c00U)
      return std::bit_cast<float>(sign | 0x7f800000U | (magnitude & 0x3ffU) << 13);
    if (magnitude >= 0x0400U)
      return std::bit_cast<float>(sign | ((magnitude << 13) + (112U << 23)));
    const float value = static_cast<float>(magnitude) * 0x1p-24F;  // subnormal: exact
    return sign != 0 ? -value : value;
  }
  // As floats compare: 0 == -0, and NaN equals nothing.
  friend constexpr bool operator==(float16 a, float16 b) noexcept {
    return static_cast<float>(a) == static_cast<float>(b);
  }

 private:
  // To nearest, ties to even; overflow gives infinity, NaN stays a NaN.
  static constexpr std::uint16_t from_float(float value) noexcept {
    const auto word = std::bit_cast<std::uint32_t>(value);
    const auto sign = static_cast<std::uint16_t>(word >> 16 & 0x8000U);
    const std::uint32_t magnitude = word & 0x7fffffffU;
    if (magnitude > 0x7f800000U)  // NaN: quiet, with the upper part of its payload
      return static_cast<std::uint16_t>(sign | 0x7e00U | (magnitude >> 13 & 0x3ffU));
    if (magnitude >= 0x47800000U)
      return static_cast<std::uint16_t>(sign | 0x7c00U);  // 2^16 and beyond
    if (magnitude < 0x38800000U) {
      // Below 2^-14: float's own addition rounds at the place of the last bit of a subnormal,
      // 2^-24.
      const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
      return static_cast<std::uint16_t>(sign |
                                        (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000U));
    }
    const std::uint32_t odd = magnitude >> 13 & 1U;
    return static_cast<std::uint16_t>(sign | (magnitude - (112U << 23) + 0xfffU + odd) >> 13);
  }
};

// The upper half of a float: its range, 7 fraction bits.
struct bfloat16 {          // NOLINT(readability-identifier-naming): the same
  std::uint16_t bits = 0;  // the whole of it

  // Zero; rounded to nearest, ties to even; of given bits.
  bfloat16() = default;
  constexpr explicit bfloat16(float value) noexcept : bits{from_float(value)} {}
  static constexpr bfloat16 of_bits(std::uint16_t bits) noexcept {
    bfloat16 half;
    half.bits = bits;
    return half;
  }
  // Exact.
  constexpr explicit operator float() const noexcept {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
  // As floats compare: 0 == -0, and NaN equals nothing.
  friend constexpr bool operator==(bfloat16 a, bfloat16 b) noexcept {
    return static_cast<float>(a) == static_cast<float>(b);
  }

 private:
  // To nearest, ties to even; NaN stays a NaN.
  static constexpr std::uint16_t from_float(float value) noexcept {
    const auto word = std::bit_cast<std::uint32_t>(value);
    if ((word & 0x7fffffffU) > 0x7f800000U) return static_cast<std::uint16_t>(word >> 16 | 0x40U);
    return static_cast<std::uint16_t>((word + 0x7fffU + (word >> 16 & 1U)) >> 16);
  }
};

}  // namespace qpmesh
