// SPDX-License-Identifier: MIT
// The closed forms beside the algorithms against the algorithms themselves, in the simulator for
// scale.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "bench/scale/bounds.hpp"
#include "bench/scale/simulator.hpp"

// The names of CTest hold what this prints.
namespace qpmesh::collectives {
static void PrintTo(const Algorithm& row, std::ostream* out) { *out << row.name; }
}  // namespace qpmesh::collectives

namespace qpmesh::test {
namespace {

using bench::Prediction;
using collectives::Algorithm;
using collectives::CallShape;
using collectives::Cost;

// Where subtrees are not full, or skips odd, not every overhead is on the longest way. Powers of
// two are exact but for overheads that two ways have at different rounds.
constexpr double percent_max_of_powers_of_two = 1;
constexpr double percent_max = 4;

double percent_off(double closed, double simulated) {
  return closed == simulated ? 0 : 100 * std::abs(closed / simulated - 1);
}

class EveryAlgorithm : public testing::TestWithParam<Algorithm> {};

TEST_P(EveryAlgorithm, costs_what_its_closed_form_says) {
  const Algorithm& algorithm = GetParam();
  constexpr double messages_max = 300'000;  // of a case
  int cases = 0;
  for (const int size :
       {2, 3, 4, 5, 7, 8, 12, 16, 17, 18, 27, 32, 33, 64, 100, 127, 256, 300, 1000, 1024}) {
    for (const std::size_t block_bytes :
         std::initializer_list<std::size_t>{0, 1, 64, 1024, 16'384, 262'144}) {
      const CallShape shape{.size = size, .bytes = block_bytes * static_cast<std::size_t>(size)};
      if (!algorithm.applies(shape)) continue;
      const Cost closed = algorithm.cost(shape, bench::reference.model(shape));
      if (closed.messages * size > messages_max) continue;
      ++cases;
      const Cost simulated = bench::simulate(algorithm, shape, bench::reference).cost;
      const std::string what = fmt::format("{} ranks, blocks of {} bytes", size, block_bytes);
      const bool power_of_two = (size & (size - 1)) == 0;
      EXPECT_GE(simulated.time_s * 1.000'001,
                bench::lower_bound_s(algorithm.collective, shape, bench::reference))
          << what;
      EXPECT_LE(percent_off(closed.time_s, simulated.time_s),
                power_of_two ? percent_max_of_powers_of_two : percent_max)
          << what << fmt::format(": {} s, simulated {} s", closed.time_s, simulated.time_s);
      EXPECT_EQ(closed.messages, simulated.messages) << what;
      EXPECT_NEAR(closed.bytes, simulated.bytes, 1e-9 * simulated.bytes) << what;
    }
  }
  EXPECT_GE(cases, 60);
}

// Of rows for several nodes the form is the sum of the parts'. Parts in place copy less than their
// own forms say, and lanes that share a link are not at the same step.
constexpr double times_simulated_max = 1.75;
constexpr double times_simulated_min = 0.85;

class EveryAlgorithmOnNodes : public testing::TestWithParam<Algorithm> {};

TEST_P(EveryAlgorithmOnNodes, costs_what_its_closed_form_says) {
  const Algorithm& algorithm = GetParam();
  int cases = 0;
  for (const auto& [nodes, node_ranks] : std::initializer_list<std::pair<int, int>>{
           {2, 2}, {2, 8}, {4, 4}, {8, 2}, {16, 16}, {64, 4}, {32, 8}}) {
    const int size = nodes * node_ranks;
    for (const std::size_t block_bytes : std::initializer_list<std::size_t>{64, 1024, 65'536}) {
      const CallShape shape{.size = size,
                            .bytes = block_bytes * static_cast<std::size_t>(size),
                            .levels = {.nodes = nodes,
                                       .node_ranks_min = node_ranks,
                                       .node_ranks_max = node_ranks,
                                       .in_order = true,
                                       .load_memory = false}};
      if (!algorithm.applies(shape)) continue;
      ++cases;
      const Cost closed = algorithm.cost(shape, bench::reference.model(shape));
      const Cost simulated = bench::simulate(algorithm, shape, bench::reference).cost;
      const std::string what =
          fmt::format("{} nodes of {} ranks, blocks of {} bytes: {} s, simulated {} s", nodes,
                      node_ranks, block_bytes, closed.time_s, simulated.time_s);
      EXPECT_GE(simulated.time_s * 1.000'001,
                bench::lower_bound_s(algorithm.collective, shape, bench::reference))
          << what;
      EXPECT_LE(closed.time_s, times_simulated_max * simulated.time_s) << what;
      EXPECT_GE(closed.time_s, times_simulated_min * simulated.time_s) << what;
    }
  }
  EXPECT_GE(cases, 18);
}

// The list of operands of a rank of a scan is as long as its share, or as two vectors of each rank
// of the node.
TEST(multiport, takes_more_nodes_in_a_share_than_ranks_on_a_node) {
  constexpr int nodes = 600;
  for (const Collective collective : {Collective::scan, Collective::exscan}) {
    const CallShape shape{.size = 2 * nodes,
                          .bytes = 64,
                          .levels = {.nodes = nodes,
                                     .node_ranks_min = 2,
                                     .node_ranks_max = 2,
                                     .in_order = true,
                                     .load_memory = false}};
    const Algorithm& row = *collectives::find_algorithm(collective, "multiport");
    EXPECT_EQ(bench::simulate(row, shape, bench::reference).cost.messages, nodes / 2 + 2);
  }
}

// Rows that load memory apply to ranks that share it alone, and their costs are not of LogGP.
std::vector<Algorithm> algorithms_for(const collectives::Levels& levels) {
  std::vector<Algorithm> rows;
  for (const Algorithm* const row : collectives::algorithms()) {
    const bool is_flat = row->applies({.size = 64, .bytes = 4096});
    const bool applies = row->applies({.size = 64, .bytes = 4096, .levels = levels});
    if (applies && is_flat == (levels.nodes == 0)) rows.push_back(*row);
  }
  return rows;
}
constexpr auto row_name = [](const auto& row) {
  return fmt::format("{}_{}", name_of(row.param.collective), row.param.name);
};

INSTANTIATE_TEST_SUITE_P(all, EveryAlgorithm, testing::ValuesIn(algorithms_for({})), row_name);
INSTANTIATE_TEST_SUITE_P(all, EveryAlgorithmOnNodes,
                         testing::ValuesIn(algorithms_for({.nodes = 8,
                                                           .node_ranks_min = 8,
                                                           .node_ranks_max = 8,
                                                           .in_order = true})),
                         row_name);

}  // namespace
}  // namespace qpmesh::test
