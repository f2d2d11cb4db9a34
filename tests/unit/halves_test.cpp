// SPDX-License-Identifier: MIT
// The 16-bit floating types against an independent reference: the table of all that they can say,
// in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "collectives/kernels/reduce.hpp"
#include "qpmesh/half.hpp"

namespace {

using namespace qpmesh;

// A format by its numbers: sign, exponent, fraction.
template <class Half>
struct Format;
template <>
struct Format<float16> {
  static constexpr int exponent_bits = 5;
  static constexpr int fraction_bits = 10;
};
template <>
struct Format<bfloat16> {
  static constexpr int exponent_bits = 8;
  static constexpr int fraction_bits = 7;
};

template <class Half>
struct HalfOf : ::testing::Test {
  static constexpr int exponent_bits = Format<Half>::exponent_bits;
  static constexpr int fraction_bits = Format<Half>::fraction_bits;
  static constexpr int bias = (1 << (exponent_bits - 1)) - 1;
  static constexpr unsigned infinity = ((1U << exponent_bits) - 1) << fraction_bits;

  // As the standard says it; the number behind the largest one where infinity is.
  static double magnitude_of(unsigned bits) {
    const int exponent = static_cast<int>(bits >> fraction_bits);
    const double fraction = bits & ((1U << fraction_bits) - 1);
    if (exponent == 0) return std::ldexp(fraction, 1 - bias - fraction_bits);
    return std::ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
  }

  HalfOf() {
    for (unsigned bits = 0; bits <= infinity; ++bits) magnitudes.push_back(magnitude_of(bits));
  }

  // The nearest of all; of two the one with an even last bit.
  unsigned rounded(double magnitude) const {
    const auto above = std::ranges::lower_bound(magnitudes, magnitude);
    if (above == magnitudes.end()) return infinity;
    const auto bits = static_cast<unsigned>(above - magnitudes.begin());
    if (bits == 0 || *above == magnitude) return bits;
    const double up = *above - magnitude;
    const double down = magnitude - magnitudes[bits - 1];
    return up < down || (up == down && bits % 2 == 0) ? bits : bits - 1;
  }
  void expect_rounded(float value) const {
    const unsigned sign = std::signbit(value) ? 0x8000U : 0U;
    ASSERT_EQ(Half{value}.bits, sign | rounded(std::abs(static_cast<double>(value))))
        << std::hexfloat << value;
  }

  std::vector<double> magnitudes;  // ascending, by their bits
};

using Halves = ::testing::Types<float16, bfloat16>;
TYPED_TEST_SUITE(HalfOf, Halves);

TYPED_TEST(HalfOf, every_bit_pattern_is_the_float_that_it_says_and_comes_back) {
  using Half = TypeParam;
  for (unsigned bits = 0; bits <= 0xffffU; ++bits) {
    const Half half = Half::of_bits(static_cast<std::uint16_t>(bits));
    const auto value = static_cast<float>(half);
    const unsigned magnitude = bits & 0x7fffU;
    ASSERT_EQ(std::signbit(value), (bits & 0x8000U) != 0) << bits;
    if (magnitude > this->infinity) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      ASSERT_TRUE(std::isnan(static_cast<float>(Half{value}))) << bits;
      ASSERT_EQ(Half{value}.bits & 0x8000U, bits & 0x8000U) << bits;
      ASSERT_FALSE(half == half) << bits;
      continue;
    }
    if (magnitude == this->infinity) {
      ASSERT_TRUE(std::isinf(value)) << bits;
    } else {
      ASSERT_EQ(std::abs(static_cast<double>(value)), this->magnitudes[magnitude]) << bits;
    }
    ASSERT_EQ(Half{value}.bits, bits);
  }
}

TYPED_TEST(HalfOf, rounds_to_the_nearest_and_ties_to_even_between_all_neighbours) {
  for (unsigned bits = 0; bits < this->infinity; ++bits) {
    // Half-way is a float, but where bfloat16 reaches beyond all floats.
    const double middle = (this->magnitudes[bits] + this->magnitudes[bits + 1]) / 2;
    const auto half_way = static_cast<float>(middle);
    if (static_cast<double>(half_way) != middle) continue;
    for (const float value :
         {half_way, std::nextafter(half_way, 0.0F), std::nextafter(half_way, INFINITY)}) {
      this->expect_rounded(value);
      this->expect_rounded(-value);
    }
  }
}

TYPED_TEST(HalfOf, rounds_any_float_as_the_reference_does) {
  std::mt19937 random{16};
  for (int i = 0; i < 200'000; ++i) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (!std::isnan(value)) this->expect_rounded(value);
  }
  for (const float edge :
       {std::numeric_limits<float>::max(), std::numeric_limits<float>::infinity(),
        std::numeric_limits<float>::denorm_min(), 65'504.0F, 65'519.99F, 65'520.0F, 0x1p-24F,
        0x1p-25F, 0x1.000002p-25F, 0x1.8p-25F, 0x1.ffcp-15F}) {
    this->expect_rounded(edge);
    this->expect_rounded(-edge);
  }
}

TYPED_TEST(HalfOf, a_nan_stays_one_whatever_its_payload) {
  using Half = TypeParam;
  for (std::uint32_t payload = 1; payload < 1U << 23; payload = payload * 2 + 1) {
    for (const std::uint32_t word :
         {0x7f800000U | payload, 0xff800000U | payload, 0x7f800000U | (payload + 1) / 2}) {
      const Half half{std::bit_cast<float>(word)};
      ASSERT_GT(half.bits & 0x7fffU, this->infinity) << word;
      ASSERT_EQ(half.bits >> 15, word >> 31) << word;
    }
  }
}

TYPED_TEST(HalfOf, zeros_of_both_signs_are_equal_and_different_numbers_are_not) {
  using Half = TypeParam;
  EXPECT_TRUE(Half{0.0F} == Half{-0.0F});
  EXPECT_FALSE(Half{1.0F} == Half{-1.0F});
  EXPECT_NE(Half{0.0F}.bits, Half{-0.0F}.bits);
}

}  // namespace
