// SPDX-License-Identifier: MIT
// Reductions of many sources in one pass, and by functions of the caller's.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "collectives/kernels/reduce.hpp"
#include "support/reference_reduction.hpp"

namespace {

using namespace qpmesh;
using namespace qpmesh::collectives;

constexpr int sources_max = 16;
constexpr std::size_t counts[] = {1, 7, 63, 64, 65, 200};  // around the kernel's own parts

template <class T>
using Sources = std::vector<std::vector<T>>;

template <class T>
Sources<T> random_sources(int source_count, std::size_t element_count, std::uint32_t seed) {
  std::mt19937 random{seed};
  Sources<T> sources(static_cast<std::size_t>(source_count), std::vector<T>(element_count));
  for (auto& source : sources) {
    for (T& value : source) {
      if constexpr (std::integral<T>) value = static_cast<T>(random());
      else value = static_cast<T>(static_cast<float>(random()) * 0x1p-31F - 1);
    }
  }
  return sources;
}

template <class T>
std::vector<const std::byte*> pointers(const Sources<T>& sources) {
  std::vector<const std::byte*> all;
  for (const auto& source : sources)
    all.push_back(reinterpret_cast<const std::byte*>(source.data()));
  return all;
}

// From left to right; halves in float, and rounded when all are in.
template <class T>
std::vector<T> folded(ReductionKind kind, const Sources<T>& sources) {
  using C = std::conditional_t<test::is_half<T>, float, T>;
  std::vector<T> result;
  for (std::size_t i = 0; i < sources[0].size(); ++i) {
    auto value = static_cast<C>(sources[0][i]);
    for (std::size_t s = 1; s < sources.size(); ++s)
      value = test::reference(kind, value, static_cast<C>(sources[s][i]));
    result.push_back(static_cast<T>(value));
  }
  return result;
}

template <class T>
bool same_bytes(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

template <class T>
struct ManySources : ::testing::Test {};
using NumberTypes =
    ::testing::Types<std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t,
                     std::uint16_t, std::uint32_t, std::uint64_t, float, double, float16, bfloat16>;
TYPED_TEST_SUITE(ManySources, NumberTypes);

TYPED_TEST(ManySources, are_reduced_from_left_to_right_into_memory_apart_or_any_of_them) {
  using T = TypeParam;
  for (int number = 0; number <= static_cast<int>(ReductionKind::logical_xor); ++number) {
    const auto kind = static_cast<ReductionKind>(number);
    const ReduceKernel kernel = reduce_kernel(kind, element_type_of<T>());
    ASSERT_EQ(kernel == nullptr, !std::integral<T> && test::is_bitwise(kind));
    if (kernel == nullptr) continue;
    for (int source_count = 2; source_count <= sources_max; ++source_count) {
      const std::size_t element_count =
          counts[static_cast<std::size_t>(source_count) % std::size(counts)];
      const Sources<T> sources = random_sources<T>(source_count, element_count, 17);
      const std::vector<T> expected = folded(kind, sources);
      std::vector<T> apart(element_count);
      kernel(reinterpret_cast<std::byte*>(apart.data()), pointers(sources).data(), source_count,
             element_count * sizeof(T));
      ASSERT_TRUE(same_bytes(apart, expected)) << "reduction " << number << " of " << source_count;
      for (std::size_t target = 0; target < sources.size(); ++target) {
        Sources<T> one_is_target = sources;
        kernel(reinterpret_cast<std::byte*>(one_is_target[target].data()),
               pointers(one_is_target).data(), source_count, element_count * sizeof(T));
        ASSERT_TRUE(same_bytes(one_is_target[target], expected))
            << "reduction " << number << " of " << source_count << " into source " << target;
      }
    }
  }
}

TEST(many_sources, of_halves_are_rounded_once_per_pass) {
  // 1 and sixteen times an eighth of its last place: added one by one every one of them would be
  // lost.
  const float16 one{1.0F};
  const float16 little{0x1p-13F};
  std::vector<std::vector<float16>> sources(sources_max, {little});
  sources[0] = {one};
  std::vector<float16> sum(1);
  reduce_kernel(ReductionKind::sum, ElementType::float16)(reinterpret_cast<std::byte*>(sum.data()),
                                                          pointers(sources).data(), sources_max,
                                                          sizeof(float16));
  EXPECT_EQ(static_cast<float>(sum[0]), 1 + 0x1p-9F);
}

// ---- functions ----

// `letters` bytes of text in an element of `bytes`: joining depends on the order.
template <std::size_t bytes>
struct Text {
  std::array<char, bytes - 1> letters{};
  std::uint8_t count = 0;
};
template <std::size_t bytes>
void join(const void* /*context*/, const void* left, void* inout, std::size_t element_count) {
  const auto* const l = static_cast<const Text<bytes>*>(left);
  auto* const r = static_cast<Text<bytes>*>(inout);
  for (std::size_t i = 0; i < element_count; ++i) {
    Text<bytes> joined = l[i];
    for (std::uint8_t j = 0; j < r[i].count; ++j)
      joined.letters.at(joined.count++) = r[i].letters.at(j);
    r[i] = joined;
  }
}

// Lengths that divide the Reducer's buffer, that do not, as long as it, and longer.
template <class T>
struct FunctionOn : ::testing::Test {};
using Texts = ::testing::Types<Text<32>, Text<24>, Text<4096>, Text<4097>, Text<10'000>>;
TYPED_TEST_SUITE(FunctionOn, Texts);

TYPED_TEST(FunctionOn, elements_of_any_length_joins_all_sources_in_order_into_any_of_them) {
  using T = TypeParam;
  const Reducer reducer{
      .function = join<sizeof(T)>, .element_bytes = sizeof(T), .commutative = false};
  EXPECT_FALSE(reducer.streams());
  const std::size_t element_count = 20'000 / sizeof(T) + 1;
  for (int source_count = 2; source_count <= sources_max; ++source_count) {
    Sources<T> sources(static_cast<std::size_t>(source_count), std::vector<T>(element_count));
    std::string expected;
    for (std::size_t s = 0; s < sources.size(); ++s) {
      expected += static_cast<char>('a' + s);
      for (T& text : sources[s]) text = {{static_cast<char>('a' + s)}, 1};
    }
    for (std::size_t target = 0; target <= sources.size(); ++target) {  // the last one: apart
      Sources<T> given = sources;
      std::vector<T> apart(element_count);
      std::vector<T>& result = target < given.size() ? given[target] : apart;
      reducer(reinterpret_cast<std::byte*>(result.data()), pointers(given),
              element_count * sizeof(T));
      for (const T& text : result)
        ASSERT_EQ(std::string(text.letters.data(), text.count), expected);
      for (std::size_t s = 0; s < given.size(); ++s) {
        if (s != target) {
          ASSERT_TRUE(same_bytes(given[s], sources[s])) << "source " << s << " is damaged";
        }
      }
    }
  }
}

TEST(function,
     that_throws_is_told_with_its_own_exception_and_its_target_is_whole_before_that_part) {
  int calls = 0;
  const auto second_part_throws = [](const void* context, const void*, void*, std::size_t) {
    if (++*static_cast<int*>(const_cast<void*>(context)) == 2)
      throw std::domain_error{"the second part"};
  };
  const Reducer reducer{.function = second_part_throws, .context = &calls, .element_bytes = 8};
  Sources<std::uint64_t> sources = random_sources<std::uint64_t>(2, 4096, 3);
  std::vector<std::uint64_t> target(4096, 5);
  try {
    reducer(reinterpret_cast<std::byte*>(target.data()), pointers(sources), 4096 * 8);
    FAIL() << "nothing was thrown";
  } catch (const UserFailure& failure) {
    EXPECT_THROW(std::rethrow_exception(failure.cause), std::domain_error);
  }
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(target.front(), sources[1].front());
  EXPECT_EQ(target.back(), 5U);
}

TEST(function, is_not_called_for_no_elements) {
  const auto fails = [](const void*, const void*, void*, std::size_t) { FAIL() << "called"; };
  const Reducer reducer{.function = fails, .element_bytes = 8};
  const std::array<const std::byte*, 2> nothing{};
  reducer(nullptr, nothing, 0);
}

}  // namespace
