// SPDX-License-Identifier: MIT
// What follows from the constants.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>

#include "collectives/choice.hpp"
#include "collectives/cost.hpp"
#include "collectives/registry.hpp"

namespace {

using namespace qpmesh;
using namespace qpmesh::collectives;

struct Expected {
  Collective collective;
  std::size_t bytes;
  std::string two_ranks;   // a core each
  std::string four_ranks;  // on two cores
};
void PrintTo(const Expected& choice, std::ostream* out) {
  *out << name_of(choice.collective) << ' ' << choice.bytes;
}

std::string chosen(const Expected& choice, int size, const TopologyParams& topology) {
  return std::string{
      Selector{topology}
          .cheapest({.size = size, .bytes = choice.bytes, .one_node = true, .cma = true},
                    choice.collective)
          .name};
}

class BuiltInChoice : public testing::TestWithParam<Expected> {};

TEST_P(BuiltInChoice, is_what_was_best_when_it_was_measured) {
  const Expected& choice = GetParam();
  EXPECT_EQ(chosen(choice, 2, {.shares_memory = true}), choice.two_ranks);
  EXPECT_EQ(chosen(choice, 4, {.shares_memory = true, .ranks_per_core = 2}), choice.four_ranks);
}

constexpr std::size_t kib = 1024;
INSTANTIATE_TEST_SUITE_P(
    all, BuiltInChoice,
    testing::Values(Expected{Collective::barrier, 0, "one_shot", "one_shot"},
                    Expected{Collective::broadcast, 8, "one_shot", "one_shot"},
                    Expected{Collective::broadcast, 64 * kib, "double_buffered", "double_buffered"},
                    Expected{Collective::broadcast, 1024 * kib, "cma", "double_buffered"},
                    Expected{Collective::reduce, 8, "one_shot", "one_shot"},
                    Expected{Collective::allgather, 8, "one_shot", "one_shot"},
                    Expected{Collective::allgather, 4 * kib, "one_shot", "one_shot"},
                    Expected{Collective::allgather, 64 * kib, "double_buffered", "double_buffered"},
                    Expected{Collective::allgather, 1024 * kib, "cma", "double_buffered"},
                    Expected{Collective::reduce_scatter, 8, "one_shot", "one_shot"},
                    Expected{Collective::reduce_scatter, 64 * kib, "direct", "direct"},
                    Expected{Collective::reduce_scatter, 1024 * kib, "cma", "direct"},
                    Expected{Collective::allreduce, 8, "one_shot", "one_shot"},
                    Expected{Collective::allreduce, 16 * kib, "one_pass", "direct"},
                    Expected{Collective::allreduce, 1024 * kib, "cma", "direct"},
                    Expected{Collective::allreduce, 4096 * kib, "cma", "direct"},
                    Expected{Collective::alltoall, 8, "one_shot", "one_shot"},
                    Expected{Collective::alltoall, 4 * kib, "one_shot", "one_shot"},
                    Expected{Collective::alltoall, 256 * kib, "double_buffered",
                             "double_buffered"}),
    [](const auto& row) {
      return fmt::format("{}_{}", name_of(row.param.collective), row.param.bytes);
    });

TEST(choice, follows_the_constants) {
  TopologyParams topology{.shares_memory = true};
  const Expected vector{Collective::allreduce, 1024 * kib, "", ""};
  EXPECT_EQ(chosen(vector, 2, topology), "cma");
  topology.constants.system_copy_s = 1e-3;
  EXPECT_EQ(chosen(vector, 2, topology), "direct");
}

constexpr std::array times{&Constants::line_s,
                           &Constants::turn_s,
                           &Constants::system_copy_s,
                           &Constants::system_page_s,
                           &Constants::copied_byte_s,
                           &Constants::crossed_byte_s,
                           &Constants::evicted_byte_s,
                           &Constants::memory_byte_s,
                           &Constants::past_byte_s,
                           &Constants::reduced_byte_s,
                           &Constants::message_latency_s,
                           &Constants::message_payload_s,
                           &Constants::message_overhead_s,
                           &Constants::message_byte_s};

TEST(predictions, grow_with_what_ranks_share_and_with_each_constant) {
  for (const Algorithm* const each : algorithms()) {
    const Algorithm& row = *each;
    const CallShape shape{.size = 4, .bytes = 4 * kib, .one_node = true, .cma = true};
    if (!row.applies(shape)) continue;
    double before_s = 0;
    for (const int ranks : {1, 2, 4}) {
      const TopologyParams topology{.shares_memory = true, .ranks_per_core = ranks};
      const double time_s = Selector{topology}.predicted_s(shape, row);
      EXPECT_TRUE(std::isfinite(time_s) && time_s > before_s)
          << name_of(row.collective) << ' ' << row.name;
      before_s =
          ranks == 4 ? 0 : time_s / 2;  // copies do not cross any more when all are on one core
      for (double Constants::*const constant : times) {
        TopologyParams slower = topology;
        slower.constants.*constant *= 2;
        EXPECT_GE((Selector{slower}.predicted_s(shape, row)), time_s) << row.name;
      }
    }
  }
}

}  // namespace
