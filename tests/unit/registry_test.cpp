// The table of algorithms: that its costs make sense, and which row runs.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "collectives/cost.hpp"
#include "collectives/registry.hpp"
#include "support/expected_error.hpp"

namespace {

using namespace qpmesh;
using namespace qpmesh::collectives;
using test::difference;
using test::ExpectedError;

template <class F>
std::string refusal(F&& call, const ExpectedError& expected) {
  try {
    call();
  } catch (const Error& error) {
    return difference(error, expected);
  }
  return "no error";
}

const TopologyParams network{};
const CostModel network_model = network.model({});

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
      EXPECT_TRUE(row.ends_with("_" + entry.path().stem().string()))
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
      for (const int size : {2, 3, 8, 33, 300}) {
        const Selector selector{topology, {}};
        double before_s = 0;
        for (std::size_t bytes = 4'096; bytes <= std::size_t{1} << 32; bytes *= 4) {
          const double time_s = selector.predicted_s({.size = size, .bytes = bytes}, row);
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

// ---- who is chosen ----

const Algorithm* row(Collective collective, std::string_view name) {
  return find_algorithm(collective, name);
}

TEST(selector, takes_the_cheapest_row_of_the_middle_of_a_power_of_two_for_all_of_it) {
  Selector selector{network, {}};
  for (std::size_t i = 0; i < collective_count; ++i) {
    const auto collective = static_cast<Collective>(i);
    for (std::size_t power = 4; power <= std::size_t{1} << 30; power *= 2) {
      const CallShape middle{.size = 24, .bytes = power + power / 2};
      const Algorithm* best = nullptr;
      for (const Algorithm* const candidate : algorithms(collective)) {
        if (!candidate->applies(middle)) continue;
        if (best == nullptr || candidate->cost(middle, network_model).time_s <
                                   best->cost(middle, network_model).time_s)
          best = candidate;
      }
      for (const std::size_t bytes : {power, power + 1, 2 * power - 1})
        ASSERT_EQ(&selector.select({.size = 24, .bytes = bytes}, collective, {}), best)
            << name_of(collective) << ", " << bytes << " bytes";
    }
  }
}

TEST(selector, takes_rows_that_apply_and_remembers_nothing_of_unusual_shapes) {
  Selector selector{network, {}};
  constexpr std::size_t bytes = std::size_t{1} << 24;
  const CallShape plain{.size = 24, .bytes = bytes};
  const CallShape ordered{.size = 24, .bytes = bytes, .ordered = true};
  EXPECT_EQ(&selector.select(ordered, Collective::reduce, {}), row(Collective::reduce, "knomial"));
  EXPECT_NE(&selector.select(plain, Collective::reduce, {}), row(Collective::reduce, "knomial"));
  EXPECT_EQ(&selector.select(ordered, Collective::reduce, {}), row(Collective::reduce, "knomial"));
  const CallShape uneven{.size = 1'000, .uneven = true};
  EXPECT_EQ(&selector.select(uneven, Collective::gather, {}), row(Collective::gather, "linear"));
}

TEST(selector, obeys_the_call_before_the_options_before_the_costs) {
  const CallShape shape{.size = 24, .bytes = 8};
  Selector selector{network, parse_forced("allreduce=ring,broadcast=chain")};
  EXPECT_EQ(&selector.select(shape, Collective::allreduce, {}), row(Collective::allreduce, "ring"));
  EXPECT_EQ(&selector.select(shape, Collective::broadcast, {}),
            row(Collective::broadcast, "chain"));
  EXPECT_EQ(&selector.select(shape, Collective::allreduce, "circulant"),
            row(Collective::allreduce, "circulant"));
  EXPECT_EQ(&selector.select(shape, Collective::allreduce, {}), row(Collective::allreduce, "ring"));
}

TEST(selector, refuses_what_is_unknown_or_does_not_apply_whoever_wants_it) {
  Selector selector{network, parse_forced("allreduce=ring,gather=binomial")};
  const CallShape ordered{.size = 4, .bytes = 8, .ordered = true};
  const ExpectedError no_ring{ErrorCode::bad_argument, no_peer, "explain",
                              "ring does not apply to an ordered reduction",
                              "these do: recursive_multiplying"};
  EXPECT_EQ(
      refusal([&] { selector.select(ordered, Collective::allreduce, {}, "explain"); }, no_ring),
      "");
  EXPECT_EQ(
      refusal([&] { selector.select(ordered, Collective::allreduce, "ring", "explain"); }, no_ring),
      "");
  EXPECT_EQ(&selector.select(ordered, Collective::allreduce, "recursive_multiplying"),
            row(Collective::allreduce, "recursive_multiplying"));
  EXPECT_EQ(refusal([&] { selector.select({.size = 4, .uneven = true}, Collective::gather, {}); },
                    {ErrorCode::bad_argument, no_peer, "",
                     "binomial does not apply to blocks of unequal lengths", "these do: linear"}),
            "");
  EXPECT_EQ(refusal([&] { selector.select({.size = 4}, Collective::scan, "quick"); },
                    {ErrorCode::bad_argument, no_peer, "", "'quick' is no algorithm of scan",
                     "known: doubling"}),
            "");
}

TEST(selector,
     takes_rows_of_a_node_only_there_and_looks_again_where_a_limit_lies_inside_a_power_of_two) {
  Selector selector{TopologyParams{.shares_memory = true}, {}};
  EXPECT_EQ(&selector.select({.size = 4, .bytes = 8, .one_node = true}, Collective::allreduce, {}),
            row(Collective::allreduce, "one_shot"));
  for (const std::size_t bytes :
       std::initializer_list<std::size_t>{4'097, 8'191, 8'192, 8'193, 16'383}) {
    const CallShape shape{.size = 4, .bytes = bytes, .one_node = true};
    EXPECT_TRUE(selector.select(shape, Collective::allreduce, {}).applies(shape)) << bytes;
  }
  Selector elsewhere{network, {}};
  EXPECT_EQ(
      refusal(
          [&] { elsewhere.select({.size = 4, .bytes = 8}, Collective::barrier, "one_shot"); },
          {ErrorCode::bad_argument, no_peer, "",
           "one_shot does not apply to ranks that do not share memory", "these do: dissemination"}),
      "");
}

TEST(parse_forced, takes_any_number_of_entries_and_the_last_word_on_a_collective) {
  EXPECT_EQ(parse_forced(""), Forced{});
  Forced expected{};
  expected[static_cast<std::size_t>(Collective::alltoall)] = row(Collective::alltoall, "bruck");
  EXPECT_EQ(parse_forced("alltoall=bruck"), expected);
  EXPECT_EQ(parse_forced("alltoall=all_pairs,alltoall=bruck"), expected);
  expected[static_cast<std::size_t>(Collective::scan)] = row(Collective::scan, "doubling");
  EXPECT_EQ(parse_forced("alltoall=bruck,scan=doubling"), expected);
}

TEST(parse_forced, names_what_is_no_entry_and_what_would_be_one) {
  for (const std::string entry :
       {"sort=quick", "allreduce", "=ring", " allreduce=ring", "Allreduce=ring"}) {
    EXPECT_EQ(
        refusal([&] { parse_forced("barrier=dissemination," + entry); },
                {ErrorCode::bad_config, no_peer, "init",
                 "algorithms (QPMESH_ALGORITHMS) has '" + entry +
                     "', which names no algorithm of a collective",
                 "write collective=algorithm, separated by commas; collectives: barrier, "
                 "broadcast, reduce, "
                 "allgather, reduce_scatter, allreduce, gather, scatter, alltoall, scan, exscan"}),
        "");
  }
  for (const std::string name : {"", "RING", "ring ", "all_pairs=ring"}) {
    EXPECT_EQ(
        refusal(
            [&] { parse_forced("allreduce=" + name); },
            {ErrorCode::bad_config, no_peer, "init",
             "algorithms (QPMESH_ALGORITHMS): '" + name + "' is no algorithm of allreduce",
             "known: recursive_multiplying, butterfly, circulant, ring, one_shot, direct, cma"}),
        "");
  }
}

}  // namespace
