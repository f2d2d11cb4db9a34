// SPDX-License-Identifier: MIT
// The table of algorithms: that its costs make sense.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "collectives/cost.hpp"
#include "collectives/registry.hpp"
#include "collectives/trials.hpp"

namespace {

using namespace qpmesh;
using namespace qpmesh::collectives;

const TopologyParams network{};
const CostModel network_model = network.model({});

double predicted_s(const TopologyParams& topology, const CallShape& shape, const Algorithm& row) {
  return row.cost(shape, topology.model(shape)).time_s;
}

std::string label(const Algorithm& row) {
  return std::string{name_of(row.collective)} + " by " + std::string{row.name};
}

TEST(registry, has_rows_of_every_collective_with_names_that_find_them) {
  std::set<std::string> labels;
  for (std::size_t i = 0; i < collective_count; ++i) {
    const auto collective = static_cast<Collective>(i);
    ASSERT_FALSE(algorithms(collective).empty());
    for (const Algorithm* const row : algorithms(collective)) {
      EXPECT_EQ(row->collective, collective);
      EXPECT_EQ(find_algorithm(collective, row->name), row);
      EXPECT_TRUE(labels.insert(label(*row)).second) << label(*row);
    }
  }
  EXPECT_EQ(labels.size(), algorithms().size());
  EXPECT_EQ(find_algorithm(Collective::barrier, "ring"), nullptr);
}

TEST(registry, remembers_the_predictions_of_shapes_that_come_again) {
  const TopologyParams here{.ranks_per_link = 4};
  Predictions predictions{here};
  for (int time = 0; time < 3; ++time) {
    for (const std::size_t shapes :
         {std::size_t{2}, std::size_t{20}}) {  // fewer than it remembers, and more
      for (std::size_t i = 0; i < shapes; ++i) {
        const CallShape shape{.size = 8, .bytes = std::size_t{1} << i};
        for (const Collective collective : {Collective::allreduce, Collective::allgather}) {
          const Algorithm& row = predictions.cheapest(shape, collective);
          EXPECT_EQ(&row, &cheapest(here, shape, collective)) << label(row) << ", " << shape.bytes;
        }
      }
    }
  }
}

// A row that is not listed would never run, and no other test would miss it.
TEST(registry, lists_what_the_files_of_the_collectives_end_with) {
  constexpr std::string_view opening = "extern constexpr Algorithm ";
  std::set<std::string> written;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator{QPMESH_SOURCE_DIR "/src/collectives"}) {
    if (entry.path().extension() != ".cpp") continue;
    std::ifstream file{entry.path()};
    for (std::string line; std::getline(file, line);) {
      if (!line.starts_with(opening)) continue;
      const std::string row = line.substr(opening.size(), line.find('{') - opening.size());
      const std::string file_name = "_" + entry.path().stem().string();
      EXPECT_TRUE(row.ends_with(file_name) || row.ends_with(file_name + "_streamed"))
          << row << " in " << entry.path();
      written.insert(row);
    }
  }
  std::set<std::string> listed;
  for (const Algorithm* const row : algorithms())
    listed.insert(std::string{name_of(row->collective)} + "_" + std::string{row->name});
  EXPECT_EQ(written, listed);
}

// Otherwise some call could not be made.
TEST(registry, has_a_row_for_every_shape) {
  for (std::size_t i = 0; i < collective_count; ++i) {
    for (const bool ordered : {false, true}) {
      for (const bool uneven : {false, true}) {
        const CallShape shape{.size = 5, .bytes = 100, .ordered = ordered, .uneven = uneven};
        EXPECT_TRUE(std::ranges::any_of(algorithms(static_cast<Collective>(i)),
                                        [&](const Algorithm* row) { return row->applies(shape); }))
            << name_of(static_cast<Collective>(i));
      }
    }
  }
}

// Rows for ranks that share memory send none: their costs are of another kind.
bool sends_messages(const Algorithm& row) { return row.applies({.size = 64, .bytes = 64}); }

// As many as each has ranks, so that every row applies.
const Levels eight_nodes{.nodes = 8, .node_ranks_min = 8, .node_ranks_max = 8, .in_order = true};
bool is_for_several_nodes(const Algorithm& row) {
  const auto applies = [&](bool uneven) {
    return row.applies({.size = 64, .bytes = 64, .uneven = uneven, .levels = eight_nodes});
  };
  return (applies(false) || applies(true)) && !sends_messages(row);
}

TEST(costs, of_several_nodes_grow_with_the_bytes) {
  int rows = 0;
  for (const Algorithm* const row : algorithms()) {
    if (!is_for_several_nodes(*row)) continue;
    ++rows;
    double before_s = 0;
    for (std::size_t bytes = 4'096; bytes <= std::size_t{1} << 32; bytes *= 4) {
      const double time_s =
          predicted_s(network, {.size = 64, .bytes = bytes, .levels = eight_nodes}, *row);
      if (row->collective == Collective::barrier && before_s > 0) ASSERT_EQ(time_s, before_s);
      else ASSERT_GT(time_s, before_s) << label(*row) << ", " << bytes << " bytes";
      before_s = time_s;
    }
  }
  EXPECT_GT(rows, 0);
}

TEST(costs, of_one_rank_are_no_messages_and_of_more_some) {
  for (const Algorithm* const each : algorithms()) {
    const Algorithm& row = *each;
    if (!sends_messages(row)) continue;
    const Cost alone = row.cost({.size = 1, .bytes = 1'000}, network_model);
    EXPECT_EQ(alone.messages, 0) << label(row);
    EXPECT_EQ(alone.bytes, 0) << label(row);
    EXPECT_GE(alone.time_s, 0) << label(row);
    for (const int size : {2, 3, 16, 17, 100, 1'000}) {
      const Cost cost = row.cost({.size = size, .bytes = 1'000}, network_model);
      EXPECT_GT(cost.messages, 0) << label(row) << " on " << size;
      EXPECT_GE(cost.time_s, network_model.latency_s) << label(row) << " on " << size;
      EXPECT_TRUE(std::isfinite(cost.time_s)) << label(row) << " on " << size;
    }
  }
}

TEST(costs, grow_with_the_bytes) {
  for (const TopologyParams& topology :
       {network, TopologyParams{.shares_memory = true},
        TopologyParams{.shares_memory = true, .ranks_per_core = 2}}) {
    for (const Algorithm* const each : algorithms()) {
      const Algorithm& row = *each;
      if (!topology.shares_memory && !sends_messages(row)) continue;
      if (is_for_several_nodes(row)) continue;
      for (const int size : {2, 3, 8, 33, 300}) {
        double before_s = 0;
        for (std::size_t bytes = 4'096; bytes <= std::size_t{1} << 32; bytes *= 4) {
          const double time_s = predicted_s(topology, {.size = size, .bytes = bytes}, row);
          if (row.collective == Collective::barrier && before_s > 0 && !topology.shares_memory) {
            ASSERT_EQ(time_s, before_s) << label(row);
          } else if (row.collective != Collective::barrier) {
            ASSERT_GT(time_s, before_s) << label(row) << ", " << bytes << " bytes on " << size;
          }
          before_s = time_s;
        }
      }
    }
  }
}

TEST(registry, names_no_more_rows_of_a_collective_than_a_decision_can) {
  for (std::size_t i = 0; i < collective_count; ++i)
    EXPECT_LE(algorithms(static_cast<Collective>(i)).size(), rows_max);
}

}  // namespace
