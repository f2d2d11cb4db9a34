// SPDX-License-Identifier: MIT
// Every algorithm of the registry, on simulated networks.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>

#include "collectives/cost.hpp"
#include "collectives/registry.hpp"
#include "simulation/collective_scenarios.hpp"

namespace qpmesh::test {
namespace {

using collectives::Algorithm;
using collectives::algorithms;

constexpr int every_size_max = 33;
constexpr std::size_t few_bytes = 8'192;    // of a vector, where ranks are many
constexpr std::size_t many_bytes = 70'000;  // beyond a pipeline's segment
constexpr std::array boundary_sizes{2, 3, 5, 8, 18};

// Cheaper, for many ranks: writes in few pieces, looked at now and then.
NetworkConfig few_pieces(NetworkConfig config) {
  config.pieces_max = 2;
  config.peek_probability = 0.1;
  return config;
}
const Flavour& flavour_of(int n) {
  return flavours()[static_cast<std::size_t>(n) % flavours().size()];
}

struct Row {
  const Algorithm* algorithm;
};
std::string name_of_row(const Algorithm& row) {
  return std::string{name_of(row.collective)} + "_" + std::string{row.name};
}
void PrintTo(const Row& row, std::ostream* out) {
  *out << name_of_row(*row.algorithm);
}  // into CTest's names

std::vector<Row> rows(bool (*which)(const Algorithm& row)) {
  std::vector<Row> chosen;
  for (const Algorithm* const row : algorithms()) {
    if (which(*row)) chosen.push_back({row});
  }
  return chosen;
}

class EveryAlgorithm : public testing::TestWithParam<Row> {
 protected:
  EveryAlgorithm() = default;
  ~EveryAlgorithm() override {
    std::printf("%s: %zu cases\n", name_of_row(*GetParam().algorithm).c_str(), case_count_);
    EXPECT_GT(case_count_, 0U);
  }

  // Nothing, where the row is for other numbers of ranks. One that loads memory runs where it is
  // shared, and one of several nodes on such.
  void run(Collectives collectives, bool in_order = false) {
    if (collectives.cases.empty()) return;
    NetworkConfig& network = collectives.network;
    const std::vector<int> nodes = nodes_of(*GetParam().algorithm, network.rank_count, in_order);
    if (!nodes.empty()) network = simulator::network_of_nodes(network, nodes);
    else if (loads_memory(*GetParam().algorithm))
      network = simulator::one_node_network(network.rank_count, network.seed);
    case_count_ += collectives.cases.size();
    ASSERT_EQ(run_collectives(collectives).wrong, "");
  }

  std::vector<CollectiveCase> draw(int size, std::size_t bytes_max, int case_count) {
    if (!applies_to_ranks(*GetParam().algorithm, size)) return {};
    return plan_.draw(size, bytes_max, case_count);
  }

  std::vector<CollectiveCase> ordered(int size) {
    if (!applies_to_ranks(*GetParam().algorithm, size)) return {};
    return plan_.ordered(size);
  }

  Plan plan_{*GetParam().algorithm};
  std::size_t case_count_ = 0;
};
class OrderedAlgorithm : public EveryAlgorithm {};

TEST_P(EveryAlgorithm, agrees_with_the_sequential_reference_for_every_number_of_ranks) {
  for (int size = 1; size <= every_size_max; ++size) {
    const Flavour& flavour = flavour_of(size);
    SCOPED_TRACE(flavour.name);
    run({.network = few_pieces(flavour.config(size, static_cast<std::uint64_t>(size))),
         .cases = draw(size, few_bytes, 8)});
    ASSERT_FALSE(HasFatalFailure());
  }
  EXPECT_TRUE(plan_.met_everything());
}

TEST_P(EveryAlgorithm, agrees_with_the_sequential_reference_for_some_larger_numbers_of_ranks) {
  for (const int size : {48, 64, 65, 100}) {
    run({.network = few_pieces(flavour_of(size).config(size, 5)),
         .cases = draw(size, few_bytes, 1)});
    ASSERT_FALSE(HasFatalFailure());
  }
}

TEST_P(OrderedAlgorithm, keeps_the_rank_order_at_every_root_for_every_number_of_ranks) {
  for (int size = 1; size <= every_size_max; ++size) {
    run({.network = few_pieces(flavour_of(size).config(size, 7)), .cases = ordered(size)}, true);
    ASSERT_FALSE(HasFatalFailure());
  }
}

TEST_P(EveryAlgorithm,
       agrees_with_the_sequential_reference_around_every_boundary_on_every_network) {
  for (const Flavour& flavour : flavours()) {
    SCOPED_TRACE(flavour.name);
    for (const int size : boundary_sizes) {
      run({.network = flavour.config(size, 9), .cases = draw(size, many_bytes, 3)});
      ASSERT_FALSE(HasFatalFailure());
    }
  }
}

TEST_P(EveryAlgorithm, runs_in_several_communicators_at_once) {
  for (const Flavour& flavour : flavours()) {
    SCOPED_TRACE(flavour.name);
    const int size = applies_to_ranks(*GetParam().algorithm, 6) ? 6 : 18;
    run({.network = flavour.config(size, 4),
         .cases = draw(size, few_bytes, 16),
         .communicators = 8});
    ASSERT_FALSE(HasFatalFailure());
  }
}

constexpr auto row_name = [](const auto& row) { return name_of_row(*row.param.algorithm); };
INSTANTIATE_TEST_SUITE_P(all, EveryAlgorithm,
                         testing::ValuesIn(rows([](const Algorithm& /*row*/) { return true; })),
                         row_name);
INSTANTIATE_TEST_SUITE_P(all, OrderedAlgorithm, testing::ValuesIn(rows(takes_ordered)), row_name);

TEST(collectives, that_reduce_have_an_algorithm_for_ordered_reductions) {
  for (std::size_t i = 0; i < collective_count; ++i) {
    const auto collective = static_cast<Collective>(i);
    if (!reduces(collective)) continue;
    EXPECT_TRUE(std::ranges::any_of(algorithms(collective), [](const Algorithm* row) {
      return takes_ordered(*row);
    })) << name_of(collective);
  }
}

// Of each collective the row with the fewest messages: 300 ranks send each other 90 thousand in all
// pairs.
TEST(collectives, three_hundred_ranks_run_one_of_each) {
  constexpr int size = 300;
  constexpr std::size_t bytes = 1'024;
  NetworkConfig network = simulator::polled_network(size, 1);
  network.pieces_max = 1;
  network.peek_probability = 0;
  std::vector<CollectiveCase> cases;
  for (std::size_t i = 0; i < collective_count; ++i) {
    const auto messages = [](const Algorithm* row) {
      return row->applies({.size = size, .bytes = bytes})
                 ? row->cost({.size = size, .bytes = bytes},
                             collectives::TopologyParams{}.model({}))
                       .messages
                 : std::numeric_limits<double>::max();
    };
    const Algorithm& row =
        **std::ranges::min_element(algorithms(static_cast<Collective>(i)), {}, messages);
    cases.push_back(Plan{row}.draw(size, bytes));
  }
  EXPECT_EQ(run_collectives({.network = network, .cases = cases}).wrong, "");
}

TEST(collectives, a_seed_repeats_its_trace) {
  std::vector<CollectiveCase> cases;
  for (const Algorithm* const row : algorithms()) cases.push_back(Plan{*row}.draw(7, few_bytes));
  const Collectives collectives{.network = simulator::polled_network(7, 3), .cases = cases};
  EXPECT_EQ(run_collectives(collectives).trace, run_collectives(collectives).trace);
}

}  // namespace
}  // namespace qpmesh::test
