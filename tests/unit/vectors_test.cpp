// SPDX-License-Identifier: MIT
// Reductions with vectors against scalar ones: every instruction set of this machine, the same
// bits.
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "collectives/kernels/reduce.hpp"
#include "qpmesh/half.hpp"

namespace {

using namespace qpmesh;
using namespace qpmesh::collectives;

constexpr int kind_count = static_cast<int>(ReductionKind::logical_xor) + 1;

// From here on, vector_reduce_kernel answers for this instruction set.
class OneTarget {
 public:
  explicit OneTarget(std::int64_t target) { set(target); }
  ~OneTarget() { set(0); }
  OneTarget(const OneTarget&) = delete;
  OneTarget& operator=(const OneTarget&) = delete;

 private:
  static void set(std::int64_t targets) {
    hwy::SetSupportedTargetsForTest(targets);
    hwy::GetChosenTarget().DeInit();
  }
};

// The sets that kernels are written for, as far as this machine has them.
std::vector<std::int64_t> targets() {
  std::vector<std::int64_t> all;
  for (const std::int64_t target : {HWY_AVX2, HWY_AVX3, HWY_NEON}) {
    if ((hwy::SupportedTargets() & target) != 0) all.push_back(target);
  }
  return all;
}

template <class T>
constexpr bool is_half = std::same_as<T, float16> || std::same_as<T, bfloat16>;

template <class T>
bool is_nan(T value) {
  if constexpr (std::integral<T>) return false;
  else return std::isnan(static_cast<std::conditional_t<is_half<T>, float, T>>(value));
}

// One NaN is as good as another.
template <class T>
bool same(T left, T right) {
  using Bits = std::array<std::byte, sizeof(T)>;
  return (is_nan(left) && is_nan(right)) || std::bit_cast<Bits>(left) == std::bit_cast<Bits>(right);
}

// Any bits, and often those that need care.
template <class T>
T any_value(std::mt19937_64& random) {
  const std::uint64_t word = random();
  if constexpr (std::integral<T>) {
    constexpr T edges[] = {std::numeric_limits<T>::min(), std::numeric_limits<T>::max(), T(-1),
                           T(0), T(1)};
    return word % 4 == 0 ? edges[word / 4 % std::size(edges)] : static_cast<T>(word >> 3);
  } else {
    using Limits = std::numeric_limits<std::conditional_t<is_half<T>, float, T>>;
    constexpr auto least = std::same_as<T, float16>    ? 0x1p-24F
                           : std::same_as<T, bfloat16> ? 0x1p-133F
                                                       : Limits::denorm_min();
    const auto edge = [&]() -> decltype(Limits::max()) {
      switch (word / 4 % 8) {
        case 0: return 0;
        case 1: return least;
        case 2: return Limits::infinity();
        case 3: return Limits::quiet_NaN();
        case 4: return least * 5;
        case 5: return Limits::max();
        case 6: return 1;
        default: return Limits::min();
      }
    };
    if (word % 4 == 0) return static_cast<T>(word >> 63 != 0 ? -edge() : edge());
    if (word % 4 == 1)
      return static_cast<T>(static_cast<decltype(Limits::max())>(static_cast<std::int64_t>(word)) *
                            0x1p-60F);
    T value;
    std::memcpy(static_cast<void*>(&value), &word, sizeof value);
    return value;
  }
}

// Vectors in one block of memory, each as far from the boundaries of vectors as its elements allow,
// with a margin that nobody may write.
template <class T>
struct Vectors {
  static constexpr std::size_t margin = 3;

  Vectors(int vector_count, std::size_t length, std::mt19937_64& random)
      : element_count{length},
        stride{length + 2 * margin + 1},
        values(static_cast<std::size_t>(vector_count) * stride) {
    std::ranges::generate(values, [&] { return any_value<T>(random); });
  }
  T* vector(std::size_t index) { return values.data() + index * stride + margin; }
  std::vector<const std::byte*> sources(int source_count) {
    std::vector<const std::byte*> all(static_cast<std::size_t>(source_count));
    for (std::size_t i = 0; i < all.size(); ++i)
      all[i] = reinterpret_cast<const std::byte*>(vector(i));
    return all;
  }
  void reduce(ReduceKernel kernel, int source_count, std::size_t target) {
    kernel(reinterpret_cast<std::byte*>(vector(target)), sources(source_count).data(), source_count,
           element_count * sizeof(T));
  }
  friend bool operator==(const Vectors& a, const Vectors& b) {
    return std::ranges::equal(a.values, b.values,
                              [](T left, T right) { return same(left, right); });
  }

  std::size_t element_count;
  std::size_t stride;
  std::vector<T> values;
};

template <class T>
struct VectorsOf : ::testing::Test {};
using Types =
    ::testing::Types<std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t,
                     std::uint16_t, std::uint32_t, std::uint64_t, float, double, float16, bfloat16>;
TYPED_TEST_SUITE(VectorsOf, Types);

TYPED_TEST(
    VectorsOf,
    give_the_bits_of_the_scalar_kernel_for_any_count_of_elements_and_sources_into_any_place) {
  using T = TypeParam;
  std::mt19937_64 random{21};
  for (const std::int64_t target_set : targets()) {
    const OneTarget only{target_set};
    int kernel_count = 0;
    for (int number = 0; number < kind_count; ++number) {
      const auto kind = static_cast<ReductionKind>(number);
      const ReduceKernel vectors = vector_reduce_kernel(kind, element_type_of<T>());
      const ReduceKernel scalar = scalar_reduce_kernel(kind, element_type_of<T>());
      if (vectors == nullptr) continue;
      ++kernel_count;
      ASSERT_NE(scalar, nullptr);
      for (int source_count = 2; source_count <= 8; ++source_count) {
        // Up to a few vectors every count; then blocks of four of the longest, and what may be left
        // over.
        const std::size_t lanes = 64 / sizeof(T);
        for (std::size_t element_count = 0; element_count <= 10 * lanes + 1;
             element_count += element_count < 2 * lanes + 2 ? 1 : lanes / 2 + 1) {
          const auto target =
              static_cast<std::size_t>(random() % static_cast<unsigned>(source_count + 1));
          Vectors<T> got{source_count + 1, element_count, random};
          Vectors<T> expected = got;
          got.reduce(vectors, source_count, target);
          expected.reduce(scalar, source_count, target);
          ASSERT_EQ(got, expected)
              << hwy::TargetName(target_set) << ", reduction " << number << " of " << source_count
              << " times " << element_count << " elements into " << target;
        }
      }
    }
    EXPECT_GT(kernel_count, 3);
    std::printf("%s: %d kernels\n", hwy::TargetName(target_set), kernel_count);
  }
}

// Every one of them beside some that need care, as left operand and as right one.
template <class T>
struct HalvesInVectors : ::testing::Test {};
using Halves = ::testing::Types<float16, bfloat16>;
TYPED_TEST_SUITE(HalvesInVectors, Halves);

TYPED_TEST(HalvesInVectors, all_of_them_are_converted_and_rounded_as_scalar_ones) {
  using T = TypeParam;
  std::vector<T> every(0x10000);
  for (std::size_t bits = 0; bits < every.size(); ++bits)
    every[bits] = T::of_bits(static_cast<std::uint16_t>(bits));
  std::mt19937_64 random{16};
  for (const std::int64_t target_set : targets()) {
    const OneTarget only{target_set};
    for (const ReductionKind kind :
         {ReductionKind::sum, ReductionKind::product, ReductionKind::min, ReductionKind::max}) {
      const ReduceKernel vectors = vector_reduce_kernel(kind, element_type_of<T>());
      const ReduceKernel scalar = scalar_reduce_kernel(kind, element_type_of<T>());
      ASSERT_NE(vectors, nullptr);
      for (int i = 0; i < 12; ++i) {
        // One value for all, or another for each.
        const T one = any_value<T>(random);
        std::vector<T> others(every.size(), one);
        if (i % 2 == 0) std::ranges::generate(others, [&] { return any_value<T>(random); });
        for (const bool swapped : {false, true}) {
          const std::byte* const sources[] = {
              reinterpret_cast<const std::byte*>((swapped ? others : every).data()),
              reinterpret_cast<const std::byte*>((swapped ? every : others).data())};
          std::vector<T> got(every.size());
          std::vector<T> expected(every.size());
          vectors(reinterpret_cast<std::byte*>(got.data()), sources, 2, got.size() * sizeof(T));
          scalar(reinterpret_cast<std::byte*>(expected.data()), sources, 2, got.size() * sizeof(T));
          for (std::size_t bits = 0; bits < every.size(); ++bits) {
            ASSERT_TRUE(same(got[bits], expected[bits]))
                << hwy::TargetName(target_set) << ", reduction " << static_cast<int>(kind) << ": "
                << std::hex << bits << " and " << others[bits].bits << " gave " << got[bits].bits
                << " and not " << expected[bits].bits;
          }
        }
      }
    }
  }
}

// The machine decides which sets are tested; one that has none of them is an x86-64 before v3.
// NEON is part of every arm64, and Highway makes nothing for one without.
#if (HWY_BASELINE_TARGETS & HWY_NEON) == 0
TEST(vectors, without_an_instruction_set_for_them_are_left_to_the_scalar_kernels) {
  const OneTarget none{HWY_SCALAR};
  for (int number = 0; number < kind_count; ++number) {
    EXPECT_EQ(vector_reduce_kernel(static_cast<ReductionKind>(number), ElementType::float32),
              nullptr);
  }
}
#endif

TEST(reduce_kernel, is_none_for_what_no_enumerator_has) {
  EXPECT_EQ(reduce_kernel(static_cast<ReductionKind>(200), ElementType::float32), nullptr);
  EXPECT_EQ(reduce_kernel(ReductionKind::sum, static_cast<ElementType>(200)), nullptr);
}

}  // namespace
