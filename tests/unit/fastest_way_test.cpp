// SPDX-License-Identifier: MIT
// Which of a few ways is fastest, found by use.
#include "messaging/fastest_way.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace {

using namespace qpmesh::messaging;

struct Used {
  std::array<int, FastestWay::ways_max> times{};
  std::uint64_t total_ns = 0;
};

// So many in a row, each of which takes what its way takes.
Used use(FastestWay& ways, std::size_t way_count, const std::array<std::uint64_t, 3>& times_ns,
         int count) {
  Used used;
  for (int i = 0; i < count; ++i) {
    const FastestWay::Use use = ways.next(way_count);
    EXPECT_LT(use.way, way_count);
    ++used.times[use.way];
    used.total_ns += times_ns[use.way];
    if (use.timed) ways.took(use.way, times_ns[use.way]);
  }
  return used;
}

TEST(the_fastest_way, is_the_predicted_one_for_the_first_few) {
  FastestWay ways;
  EXPECT_EQ(use(ways, 3, {300, 200, 100}, 4).times[0], 4);
}

TEST(the_fastest_way, is_found_wherever_it_stands) {
  for (std::size_t fastest = 0; fastest < 3; ++fastest) {
    std::array<std::uint64_t, 3> times_ns{1000, 1000, 1000};
    times_ns[fastest] = 700;
    FastestWay ways;
    use(ways, 3, times_ns, 40);
    EXPECT_EQ(ways.fastest(3), fastest);
    EXPECT_GT(use(ways, 3, times_ns, 1000).times[fastest], 950);
  }
}

TEST(trials, cost_about_a_hundredth_however_slow_they_are) {
  for (const std::uint64_t slow_ns : {1'100U, 2'000U, 10'000U, 400'000U}) {
    FastestWay ways;
    use(ways, 2, {slow_ns, 1000}, 50);
    constexpr int count = 1'000'000;
    const Used used = use(ways, 2, {slow_ns, 1000}, count);
    EXPECT_GT(used.times[0], 0) << "nobody would see it become faster";
    EXPECT_LT(static_cast<double>(used.total_ns), 1.02 * 1000 * count) << slow_ns;
  }
}

TEST(a_way_that_becomes_slow, is_left) {
  FastestWay ways;
  use(ways, 2, {1000, 3000}, 100);
  ASSERT_EQ(ways.fastest(2), 0U);
  use(ways, 2, {9000, 3000}, 200);
  EXPECT_EQ(ways.fastest(2), 1U);
}

TEST(a_way_that_becomes_fast, is_found_by_its_trials) {
  FastestWay ways;
  use(ways, 2, {1000, 1500}, 100);
  ASSERT_EQ(ways.fastest(2), 0U);
  use(ways, 2, {1000, 500}, 3000);
  EXPECT_EQ(ways.fastest(2), 1U);
}

TEST(a_way, is_not_left_for_one_measurement_that_something_else_made_long) {
  FastestWay ways;
  use(ways, 2, {1000, 1500}, 100);
  ways.took(0, 1'000'000);
  EXPECT_EQ(ways.fastest(2), 0U);
}

TEST(a_way_that_never_tells_its_time, is_left_for_those_that_do) {
  FastestWay ways;
  for (int i = 0; i < 100; ++i) {
    const FastestWay::Use use = ways.next(2);
    if (use.timed && use.way == 1) ways.took(1, 1000);
  }
  EXPECT_EQ(ways.fastest(2), 1U);
}

TEST(lengths, have_a_class_for_each_power_of_two) {
  FastestWays<4096, 3> ways;
  EXPECT_EQ(&ways.of(1), &ways.of(4095));
  EXPECT_NE(&ways.of(4095), &ways.of(4096));
  EXPECT_EQ(&ways.of(4096), &ways.of(8191));
  EXPECT_NE(&ways.of(8191), &ways.of(8192));
  EXPECT_EQ(&ways.of(8192), &ways.of(std::size_t{1} << 40));
}

}  // namespace
