// What messages between nodes cost: who measures it, and what all ranks take for it.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "startup/network_times.hpp"

namespace qpmesh::startup {
namespace {

using Pairs = std::vector<std::pair<int, int>>;

TEST(network_times, are_measured_by_the_first_ranks_of_two_nodes_and_by_no_rank_twice) {
  EXPECT_EQ(measuring_pairs(std::array{0, 1}), (Pairs{{0, 1}}));
  EXPECT_EQ(measuring_pairs(std::array{0, 0, 1, 1}), (Pairs{{0, 2}}));
  EXPECT_EQ(measuring_pairs(std::array{0, 1, 0, 2, 3, 1}), (Pairs{{0, 1}, {3, 4}}));
  EXPECT_EQ(measuring_pairs(std::array{0, 1, 2}), (Pairs{{0, 1}}));
}

TEST(network_times, of_a_node_whose_ranks_a_network_joins_are_those_of_its_first_two) {
  EXPECT_EQ(measuring_pairs(std::array{0, 0, 0}), (Pairs{{0, 1}}));
  EXPECT_EQ(measuring_pairs(std::array{0}), Pairs{});
}

TEST(network_times, are_rounded_so_that_a_tenth_more_is_mostly_the_same) {
  EXPECT_DOUBLE_EQ(rounded(1.0), 1.0);
  EXPECT_DOUBLE_EQ(rounded(1.1), 1.0);
  EXPECT_DOUBLE_EQ(rounded(1.3), std::sqrt(2.0));
  EXPECT_DOUBLE_EQ(rounded(0.9e-6), rounded(1.0e-6));
  EXPECT_EQ(rounded(0), 0);
  EXPECT_EQ(rounded(-1e-9), 0);
}

}  // namespace
}  // namespace qpmesh::startup
