// SPDX-License-Identifier: MIT
// Random operations on real processes, with every way that bytes can take: rings that hold a
// message or a thousand, eager messages or none, single copies or none. Every byte is checked, also
// those around a range.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "job.hpp"
#include "tests/support/long_runs.hpp"

namespace qpmesh::ranks {
namespace {

using Setting = std::tuple<int, int, std::string>;  // ranks, bytes of a payload ring, QPMESH_CMA

class RandomOperations : public testing::TestWithParam<Setting> {};

// In a long run a million over all settings: 110 of them with the eager limits that each ring
// allows.
TEST_P(RandomOperations, end_with_the_right_contents) {
  const auto [size, ring, copies] = GetParam();
  const int operations = test::times(40, 9'100);
  int seed = size * 1000 + ring;
  int eager_before = -1;
  for (const int eager : {0, 4 << 10, 1 << 20}) {
    const int eager_allowed = std::min(eager, ring / 2);
    if (std::exchange(eager_before, eager_allowed) == eager_allowed) continue;
    const std::string eager_bytes_max = "QPMESH_EAGER_BYTES_MAX=" + std::to_string(eager_allowed);
    SCOPED_TRACE(eager_bytes_max + " seed " + std::to_string(++seed));
    auto ranks = start_ranks(
        size, rank_program("random_operations", {std::to_string(operations), std::to_string(seed)}),
        {.variables = {"QPMESH_PAYLOAD_RING_BYTES=" + std::to_string(ring), eager_bytes_max,
                       "QPMESH_CMA=" + copies}});
    expect_success(ranks);
  }
}

// Where the receiver's process places what comes a reduction is combined when all of it is there.
TEST(random_operations, end_with_the_right_contents_where_reductions_come_whole) {
  const std::string operations = std::to_string(test::times(80, 9'100));
  for (const int size : {2, 3, 4}) {
    SCOPED_TRACE(size);
    auto ranks = start_ranks(
        size, rank_program("random_operations", {operations, std::to_string(size)}),
        {.variables = {"QPMESH_TRANSPORT=tcp", "QPMESH_NETDEV=lo", "QPMESH_EAGER_BYTES_MAX=0"}});
    expect_success(ranks);
  }
}

std::string name_of_setting(const testing::TestParamInfo<Setting>& info) {
  const auto& [size, ring, copies] = info.param;
  return std::to_string(size) + "_ring_" + std::to_string(ring) + "_copies_" + copies;
}

INSTANTIATE_TEST_SUITE_P(ranks, RandomOperations,
                         testing::Combine(testing::Values(2, 3, 4, 5, 6),
                                          testing::Values(4 << 10, 64 << 10, 1 << 20, 2 << 20),
                                          testing::Values("yes", "no")),
                         name_of_setting);

}  // namespace
}  // namespace qpmesh::ranks
