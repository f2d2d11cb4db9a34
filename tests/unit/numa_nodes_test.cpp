// SPDX-License-Identifier: MIT
// Memory controllers: of made-up cores, and of this machine.
#include <gtest/gtest.h>

#include <algorithm>

#include "topology/cores.hpp"

namespace qpmesh::topology {
namespace {

TEST(a_numa_node, is_a_ranks_only_when_it_holds_all_of_its_cores) {
  const std::vector<NumaNode> nodes{{.number = 0, .cores = {0, 1, 2}},
                                    {.number = 2, .cores = {3, 4, 5}}};
  EXPECT_EQ(numa_node_of(std::vector{1}, nodes), 0);
  EXPECT_EQ(numa_node_of(std::vector{3, 5}, nodes), 2);
  EXPECT_EQ(numa_node_of(std::vector{2, 3}, nodes), -1);
  EXPECT_EQ(numa_node_of(std::vector{9}, nodes), -1);
  EXPECT_EQ(numa_node_of({}, nodes), -1);
}

TEST(this_machine, has_every_usable_core_in_exactly_one_numa_node) {
  const auto nodes = numa_nodes();
  const auto cores = usable_cores().cores;
  ASSERT_FALSE(cores.empty());
  ASSERT_FALSE(nodes.empty());
  for (const int core : cores) {
    EXPECT_EQ(
        std::ranges::count_if(
            nodes, [&](const NumaNode& node) { return std::ranges::count(node.cores, core) == 1; }),
        1)
        << "core " << core;
  }
}

}  // namespace
}  // namespace qpmesh::topology
