// SPDX-License-Identifier: MIT
// Reductions against a plain reference, and the patterns of who sends which block, followed
// symbolically.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <bitset>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "collectives/kernels/reduce.hpp"
#include "collectives/patterns/blocks.hpp"
#include "collectives/patterns/circulant.hpp"
#include "support/reference_reduction.hpp"

namespace {

using namespace qpmesh;
using namespace qpmesh::collectives;

constexpr std::array all_reductions{
    ReductionKind::sum,        ReductionKind::product,    ReductionKind::min,
    ReductionKind::max,        ReductionKind::average,    ReductionKind::bit_and,
    ReductionKind::bit_or,     ReductionKind::bit_xor,    ReductionKind::logical_and,
    ReductionKind::logical_or, ReductionKind::logical_xor};

template <class T>
std::vector<T> edge_values() {
  using Limits = std::numeric_limits<T>;
  if constexpr (std::floating_point<T>) {
    return {-Limits::infinity(),
            Limits::lowest(),
            T(-1.5),
            -Limits::denorm_min(),
            T(-0.0),
            T(0.0),
            Limits::denorm_min(),
            T(0.1),
            T(1.5),
            Limits::max(),
            Limits::infinity(),
            Limits::quiet_NaN()};
  } else {
    return {Limits::min(),
            static_cast<T>(Limits::min() + 1),
            static_cast<T>(-1),
            T{0},
            T{1},
            T{2},
            T{7},
            T{100},
            static_cast<T>(Limits::max() / 2),
            static_cast<T>(Limits::max() - 1),
            Limits::max()};
  }
}

// The same bits; one NaN is as good as another.
template <class T>
bool same(T left, T right) {
  if constexpr (std::floating_point<T>) {
    if (std::isnan(left) && std::isnan(right)) return true;
  }
  using Bits = std::array<std::byte, sizeof(T)>;
  return std::bit_cast<Bits>(left) == std::bit_cast<Bits>(right);
}

template <class T>
std::byte* bytes_of(std::vector<T>& values) {
  return reinterpret_cast<std::byte*>(values.data());
}
template <class T>
const std::byte* bytes_of(const std::vector<T>& values) {
  return reinterpret_cast<const std::byte*>(values.data());
}
template <class T>
void reduce_two(ReduceKernel kernel, std::vector<T>& target, const std::vector<T>& left,
                const std::vector<T>& right) {
  const std::array<const std::byte*, 2> sources{bytes_of(left), bytes_of(right)};
  kernel(bytes_of(target), sources.data(), 2, target.size() * sizeof(T));
}

template <class T>
struct KernelOf : ::testing::Test {
  KernelOf() {
    for (const T left : edge_values<T>()) {
      for (const T right : edge_values<T>()) {
        lefts.push_back(left);
        rights.push_back(right);
      }
    }
  }
  std::vector<T> lefts;
  std::vector<T> rights;
};

using WholeTypes =
    ::testing::Types<std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t,
                     std::uint16_t, std::uint32_t, std::uint64_t, float, double>;
TYPED_TEST_SUITE(KernelOf, WholeTypes);

TYPED_TEST(KernelOf, every_reduction_agrees_with_the_reference_on_all_pairs_of_edge_values) {
  using T = TypeParam;
  for (const ReductionKind kind : all_reductions) {
    SCOPED_TRACE(static_cast<int>(kind));
    const ReduceKernel kernel = reduce_kernel(kind, element_type_of<T>());
    if (std::floating_point<T> && test::is_bitwise(kind)) {
      EXPECT_EQ(kernel, nullptr);
      continue;
    }
    ASSERT_NE(kernel, nullptr);
    std::vector<T> apart(this->lefts.size());
    reduce_two(kernel, apart, this->lefts, this->rights);
    std::vector<T> on_left = this->lefts;
    reduce_two(kernel, on_left, on_left, this->rights);
    std::vector<T> on_right = this->rights;
    reduce_two(kernel, on_right, this->lefts, on_right);
    for (std::size_t i = 0; i < apart.size(); ++i) {
      const T wanted = test::reference(kind, this->lefts[i], this->rights[i]);
      EXPECT_TRUE(same(apart[i], wanted))
          << +this->lefts[i] << " and " << +this->rights[i] << " gave " << +apart[i];
      EXPECT_TRUE(same(on_left[i], apart[i])) << "in place on the left, element " << i;
      EXPECT_TRUE(same(on_right[i], apart[i])) << "in place on the right, element " << i;
    }
  }
}

TYPED_TEST(KernelOf, min_and_max_do_not_depend_on_which_side_a_value_comes_from) {
  using T = TypeParam;
  for (const ReductionKind kind : {ReductionKind::min, ReductionKind::max}) {
    const ReduceKernel kernel = reduce_kernel(kind, element_type_of<T>());
    std::vector<T> one(this->lefts.size());
    std::vector<T> other(this->lefts.size());
    reduce_two(kernel, one, this->lefts, this->rights);
    reduce_two(kernel, other, this->rights, this->lefts);
    for (std::size_t i = 0; i < one.size(); ++i) {
      EXPECT_TRUE(same(one[i], other[i])) << +this->lefts[i] << " and " << +this->rights[i];
    }
  }
}

TYPED_TEST(KernelOf, element_bytes_are_the_types_and_no_elements_touch_nothing) {
  using T = TypeParam;
  const std::array<const std::byte*, 3> nothing{};
  reduce_kernel(ReductionKind::sum, element_type_of<T>())(nullptr, nothing.data(), 2, 0);
  reduce_kernel(ReductionKind::sum, element_type_of<T>())(nullptr, nothing.data(), 3, 0);
}

template <class T>
std::vector<T> divided(std::vector<T> values, int divisor) {
  divide_kernel(element_type_of<T>())(bytes_of(values), values.size(), divisor);
  return values;
}

TEST(average, of_small_integers_over_three_hundred_ranks_does_not_cut_the_divisor_to_their_size) {
  std::vector<std::int8_t> every;
  for (int value = -128; value <= 127; ++value) every.push_back(static_cast<std::int8_t>(value));
  EXPECT_EQ(divided(every, 300), std::vector<std::int8_t>(256, 0));
  EXPECT_EQ(divided<std::uint8_t>({0, 255}, 256), (std::vector<std::uint8_t>{0, 0}));
  EXPECT_EQ(divided<std::int16_t>({32767, -32768}, 65536), (std::vector<std::int16_t>{0, 0}));
}

TEST(average, of_integers_truncates_towards_zero_and_of_floats_divides) {
  EXPECT_EQ(divided<std::int32_t>({7, -7, 0, 8}, 4), (std::vector<std::int32_t>{1, -1, 0, 2}));
  EXPECT_EQ(divided<std::uint64_t>({~std::uint64_t{0}}, 2),
            (std::vector<std::uint64_t>{~std::uint64_t{0} / 2}));
  EXPECT_EQ(divided<std::int64_t>({std::numeric_limits<std::int64_t>::min()}, 2),
            (std::vector<std::int64_t>{std::numeric_limits<std::int64_t>::min() / 2}));
  EXPECT_EQ(divided<double>({1.0, -3.0}, 4), (std::vector<double>{0.25, -0.75}));
  EXPECT_EQ(divided<float>({1.0F}, 3), (std::vector<float>{1.0F / 3.0F}));
}

TEST(kernels, of_no_element_type_are_null) {
  EXPECT_EQ(reduce_kernel(ReductionKind::sum, ElementType::none), nullptr);
  EXPECT_EQ(divide_kernel(ElementType::none), nullptr);
}

// ---- patterns ----

constexpr int ranks_max = 200;
using Ranks = std::bitset<ranks_max>;

TEST(circulant_pattern, completes_each_block_at_its_owner_with_every_contribution_exactly_once) {
  for (int size = 1; size <= ranks_max; ++size) {
    const auto n = static_cast<std::size_t>(size);
    // held[r][j]: whose contributions rank r has in R[j], which is block (r + j) mod N.
    std::vector<std::vector<Ranks>> held(n, std::vector<Ranks>(n));
    for (std::size_t r = 0; r < n; ++r) {
      for (Ranks& contributions : held[r]) contributions.set(r);
    }
    int blocks_sent = 0;
    for (int round = 0; round < ceil_log2(size); ++round) {
      const CirculantRound step = circulant_round(size, round);
      ASSERT_EQ(step.skip, round == 0 ? size : circulant_round(size, round - 1).next_skip);
      const auto before = held;
      const auto next_skip = static_cast<std::size_t>(step.next_skip);
      const auto count = static_cast<std::size_t>(step.block_count());
      blocks_sent += step.block_count();
      for (std::size_t r = 0; r < n; ++r) {
        const auto& sender = before[(r + n - next_skip % n) % n];
        for (std::size_t i = 0; i < count; ++i) {
          ASSERT_TRUE((held[r][i] & sender[next_skip + i]).none())
              << size << " ranks, a contribution twice at " << r;
          held[r][i] |= sender[next_skip + i];
        }
      }
    }
    EXPECT_EQ(ceil_log2(size), static_cast<int>(std::bit_width(n - 1)));
    EXPECT_EQ(circulant_round(size, ceil_log2(size)).skip, 1);
    EXPECT_EQ(blocks_sent, size - 1);
    for (std::size_t r = 0; r < n; ++r)
      ASSERT_EQ(held[r][0].count(), n) << size << " ranks, block " << r;
  }
}

TEST(circulant_pattern, backwards_brings_every_block_to_everybody_exactly_once) {
  for (int size = 1; size <= ranks_max; ++size) {
    const auto n = static_cast<std::size_t>(size);
    std::vector<Ranks> complete(n);  // of rank r: which R[j] are complete
    for (Ranks& blocks : complete) blocks.set(0);
    for (int round = ceil_log2(size) - 1; round >= 0; --round) {
      const CirculantRound step = circulant_round(size, round);
      const auto before = complete;
      const auto next_skip = static_cast<std::size_t>(step.next_skip);
      for (std::size_t r = 0; r < n; ++r) {
        const std::size_t sender = (r + next_skip) % n;
        for (std::size_t i = 0; i < static_cast<std::size_t>(step.block_count()); ++i) {
          ASSERT_TRUE(before[sender].test(i))
              << size << " ranks: " << sender << " sends a block that it does not have";
          ASSERT_FALSE(complete[r].test(next_skip + i))
              << size << " ranks: " << r << " gets a block twice";
          complete[r].set(next_skip + i);
        }
      }
    }
    for (const Ranks& blocks : complete) ASSERT_EQ(blocks.count(), n);
  }
}

TEST(runs, cover_a_rotated_range_exactly_in_at_most_two_pieces) {
  for (int size = 1; size <= 24; ++size) {
    for (int rank = 0; rank < size; ++rank) {
      for (int begin = 0; begin < size; ++begin) {
        for (int count = 0; begin + count <= size; ++count) {
          int covered = begin;
          int pieces = 0;
          for_each_run(rank, size, begin, count, [&](BlockRun run, int rotated) {
            ++pieces;
            ASSERT_EQ(rotated, covered);
            ASSERT_GT(run.count, 0);
            ASSERT_LE(run.first + run.count, size);
            for (int i = 0; i < run.count; ++i)
              ASSERT_EQ(run.first + i, (rank + covered + i) % size);
            covered += run.count;
          });
          ASSERT_EQ(covered, begin + count);
          ASSERT_LE(pieces, 2);
        }
      }
    }
  }
}

TEST(even_blocks, cover_the_vector_in_order_and_differ_by_one_element_at_most) {
  for (int block_count = 1; block_count <= 33; ++block_count) {
    for (std::size_t element_count = 0; element_count <= 100; ++element_count) {
      const Blocks blocks = even_blocks(element_count, block_count);
      ASSERT_EQ(blocks.first(0), 0U);
      ASSERT_EQ(blocks.first(block_count), element_count);
      for (int block = 0; block < block_count; ++block) {
        ASSERT_EQ(blocks.first(block) + blocks.length(block), blocks.first(block + 1));
        ASSERT_GE(blocks.length(block), element_count / static_cast<std::size_t>(block_count));
        ASSERT_LE(blocks.length(block), element_count / static_cast<std::size_t>(block_count) + 1);
        if (block > 0) {
          ASSERT_LE(blocks.length(block), blocks.length(block - 1));
        }
      }
    }
  }
}

}  // namespace
