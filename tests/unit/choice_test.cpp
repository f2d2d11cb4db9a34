// SPDX-License-Identifier: MIT
// Which algorithm runs: by prediction, by force, and measured by ranks that share memory.
#include "collectives/choice.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "qpmesh/qpmesh.hpp"
#include "support/expected_error.hpp"
#include "support/thread_bootstrap.hpp"

namespace {

using namespace qpmesh;
using namespace qpmesh::collectives;
using test::ExpectedError;

template <class F>
std::string refusal(F&& call, const ExpectedError& expected) {
  try {
    call();
  } catch (const Error& error) {
    return test::difference(error, expected);
  }
  return "no error";
}

const TopologyParams network{};
const CostModel network_model = network.model({});

const Algorithm* row(Collective collective, std::string_view name) {
  return find_algorithm(collective, name);
}
const Algorithm* selected(Selector& selector, const CallShape& shape, Collective collective,
                          std::string_view wanted = {}) {
  const Choice choice = selector.select(shape, collective, wanted);
  EXPECT_EQ(choice.named, choice.row);
  EXPECT_TRUE(selector.is_plain(choice));
  return choice.row;
}

// ---- predicted, or forced ----

TEST(selector,
     takes_of_the_rows_that_are_about_the_cheapest_for_these_bytes_one_of_fewest_messages) {
  Selector selector{network};
  for (std::size_t i = 0; i < collective_count; ++i) {
    const auto collective = static_cast<Collective>(i);
    for (std::size_t power = 4; power <= std::size_t{1} << 30; power *= 2) {
      for (const std::size_t bytes : {power, power + 1, power + power / 2, power}) {
        const CallShape shape{.size = 24, .bytes = bytes};
        const Algorithm* const taken = selected(selector, shape, collective);
        ASSERT_EQ(&selector.expected(shape, collective), taken);
        const Cost its = taken->cost(shape, network_model);
        double least_s = its.time_s;
        for (const Algorithm* const other : algorithms(collective)) {
          if (other->applies(shape))
            least_s = std::min(least_s, other->cost(shape, network_model).time_s);
        }
        ASSERT_LE(its.time_s, 1.0101 * least_s) << taken->name << ", " << bytes << " bytes";
        for (const Algorithm* const other : algorithms(collective)) {
          if (!other->applies(shape)) continue;
          const Cost theirs = other->cost(shape, network_model);
          if (theirs.time_s > 1.0099 * least_s) continue;
          ASSERT_LE(its.messages, theirs.messages)
              << taken->name << " and " << other->name << ", " << bytes << " bytes";
        }
      }
    }
  }
}

TEST(selector, takes_of_reductions_that_are_about_as_cheap_the_one_whose_ranks_share_the_bytes) {
  TopologyParams nodes{.ranks_per_core = 2, .ranks_per_link = 2};
  nodes.constants.network = {.latency_s = 30e-6, .overhead_s = 10e-6, .byte_s = 0.9e-9};
  const auto shape_of = [](std::size_t bytes) {
    return CallShape{
        .size = 4,
        .bytes = bytes,
        .levels = {.nodes = 2, .node_ranks_min = 2, .node_ranks_max = 2, .in_order = true}};
  };
  const auto cost_of = [&](std::string_view name, std::size_t bytes) {
    return row(Collective::allreduce, name)->cost(shape_of(bytes), nodes.model(shape_of(bytes)));
  };
  constexpr std::size_t bytes = std::size_t{512} << 10;
  const Cost by_leaders = cost_of("leaders", bytes);
  const Cost by_lanes = cost_of("lanes", bytes);
  ASSERT_LT(by_leaders.time_s, by_lanes.time_s);
  ASSERT_GT(by_leaders.time_s * 1.01, by_lanes.time_s);
  ASSERT_EQ(by_leaders.messages, by_lanes.messages);
  EXPECT_EQ(cheapest(nodes, shape_of(bytes), Collective::allreduce).name, "lanes");
  EXPECT_EQ(cheapest(nodes, shape_of(8), Collective::allreduce).name, "leaders");
}

TEST(selector, doubles_where_a_further_message_costs_as_much_as_a_round) {
  TopologyParams carried_by_processors{};
  carried_by_processors.constants.network = {
      .latency_s = 5e-6, .overhead_s = 3.8e-6, .byte_s = 0.165e-9};
  carried_by_processors.ranks_per_core = 2;
  // A selector is one communicator's.
  const auto chosen = [](const TopologyParams& topology, int size, std::size_t bytes) {
    Selector selector{topology};
    return selected(selector, {.size = size, .bytes = bytes}, Collective::allreduce)->name;
  };
  for (const std::size_t bytes : {8U, 4096U}) {
    for (const int size : {4, 8, 16}) {
      EXPECT_EQ(chosen(carried_by_processors, size, bytes), "recursive_doubling");
      EXPECT_EQ(chosen(network, size, bytes), "recursive_multiplying");
    }
  }
  EXPECT_EQ(chosen(carried_by_processors, 4, std::size_t{1} << 20), "circulant");
  EXPECT_EQ(chosen(carried_by_processors, 2, 8), "recursive_multiplying");
}

// Formulas of rows without levels count every message as one between nodes.
TEST(selector, tries_rows_with_levels_and_flat_ones_however_far_apart_their_predictions_are) {
  const TopologyParams nodes{.ranks_per_link = 64};
  const CallShape shape{.size = 1'024,
                        .bytes = std::size_t{1} << 20,
                        .levels = {.nodes = 16,
                                   .node_ranks_min = 64,
                                   .node_ranks_max = 64,
                                   .in_order = true,
                                   .load_memory = false}};
  const auto predicted_s = [&](std::string_view name) {
    return row(Collective::allgather, name)->cost(shape, nodes.model(shape)).time_s;
  };
  const auto cheapest_of = [&](std::initializer_list<std::string_view> names) {
    return *std::ranges::min_element(names, {}, predicted_s);
  };
  const std::string_view flat = cheapest_of({"all_pairs", "circulant", "ring"});
  const std::string_view levels = cheapest_of({"leaders", "lanes", "multiport"});
  ASSERT_GT(predicted_s(flat), 5 * predicted_s(levels));
  Selector selector{nodes, nullptr, {.by_messages = true}};
  std::map<std::string_view, int> tried;
  for (Choice choice = selector.select(shape, Collective::allgather, {}); choice.row != nullptr;
       choice = selector.select(shape, Collective::allgather, {}))
    ++tried[choice.row->name];  // until the members would judge
  EXPECT_TRUE(tried.contains(flat)) << flat;
  EXPECT_TRUE(tried.contains(levels)) << levels;
}

TEST(selector, takes_rows_that_apply_and_remembers_nothing_of_unusual_shapes) {
  Selector selector{network};
  constexpr std::size_t bytes = std::size_t{1} << 24;
  const CallShape plain{.size = 24, .bytes = bytes};
  const CallShape ordered{.size = 24, .bytes = bytes, .ordered = true};
  const Algorithm* const knomial = row(Collective::reduce, "knomial");
  EXPECT_EQ(selected(selector, ordered, Collective::reduce), knomial);
  EXPECT_NE(selected(selector, plain, Collective::reduce), knomial);
  EXPECT_EQ(selected(selector, ordered, Collective::reduce), knomial);
  const CallShape uneven{.size = 1'000, .uneven = true};
  EXPECT_EQ(selected(selector, uneven, Collective::gather), row(Collective::gather, "linear"));
}

// Blocks whose lengths only some ranks know.
CallShape uneven_on(int nodes, int node_ranks) {
  return {
      .size = nodes * node_ranks,
      .uneven = true,
      .levels = {
          .nodes = nodes, .node_ranks_min = node_ranks, .node_ranks_max = node_ranks, .cma = true}};
}

TEST(selector, moves_blocks_of_unknown_lengths_by_nodes_where_these_have_many_ranks_with_cores) {
  const auto chosen = [](int nodes, int node_ranks, int ranks_per_core) {
    const CallShape shape = uneven_on(nodes, node_ranks);
    const TopologyParams nodes_of{.ranks_per_core = ranks_per_core, .ranks_per_link = node_ranks};
    Selector selector{nodes_of};
    const std::string_view gather = selected(selector, shape, Collective::gather)->name;
    EXPECT_EQ(selected(selector, shape, Collective::scatter)->name, gather);
    return gather;
  };
  EXPECT_EQ(chosen(2, 2, 1), "linear");
  EXPECT_EQ(chosen(2, 64, 1), "leaders_v");
  EXPECT_EQ(chosen(8, 8, 1), "leaders_v");
  EXPECT_EQ(chosen(256, 64, 1), "leaders_v");
  EXPECT_EQ(chosen(4, 8, 4), "linear");
}

TEST(selector, exchanges_blocks_of_unknown_lengths_by_ports_where_nodes_have_many_ranks) {
  const collectives::NetworkTimes verbs{};
  const collectives::NetworkTimes tcp{.latency_s = 10e-6, .overhead_s = 2e-6, .byte_s = 0.3e-9};
  const auto chosen = [](const collectives::NetworkTimes& network_times, int nodes, int node_ranks,
                         int ranks_per_core) {
    TopologyParams nodes_of{.ranks_per_core = ranks_per_core, .ranks_per_link = node_ranks};
    nodes_of.constants.network = network_times;
    Selector selector{nodes_of};
    return selected(selector, uneven_on(nodes, node_ranks), Collective::alltoall)->name;
  };
  EXPECT_EQ(chosen(verbs, 2, 2, 1), "all_pairs");
  EXPECT_EQ(chosen(verbs, 2, 8, 8), "all_pairs");
  EXPECT_EQ(chosen(verbs, 16, 16, 1), "multiport_v");
  EXPECT_EQ(chosen(verbs, 256, 64, 1), "multiport_v");
  EXPECT_EQ(chosen(tcp, 2, 2, 1), "all_pairs");
  EXPECT_EQ(chosen(tcp, 2, 4, 4), "all_pairs");
  EXPECT_EQ(chosen(tcp, 2, 8, 8), "multiport_v");
}

TEST(selector, obeys_the_call_before_the_options_before_the_costs) {
  const CallShape shape{.size = 24, .bytes = 8};
  const Forced forced = parse_forced("allreduce=ring,broadcast=chain:<8,linear");
  Selector selector{network, &forced};
  EXPECT_EQ(selected(selector, shape, Collective::allreduce), row(Collective::allreduce, "ring"));
  EXPECT_EQ(selected(selector, shape, Collective::broadcast), row(Collective::broadcast, "linear"));
  EXPECT_EQ(selected(selector, {.size = 24, .bytes = 7}, Collective::broadcast),
            row(Collective::broadcast, "chain"));
  EXPECT_EQ(selected(selector, shape, Collective::allreduce, "circulant"),
            row(Collective::allreduce, "circulant"));
  EXPECT_EQ(selected(selector, shape, Collective::allreduce), row(Collective::allreduce, "ring"));
}

TEST(selector, refuses_what_is_unknown_or_does_not_apply_whoever_wants_it) {
  const Forced forced = parse_forced("allreduce=ring,gather=binomial");
  Selector selector{network, &forced};
  const CallShape ordered{.size = 4, .bytes = 8, .ordered = true};
  const ExpectedError no_ring{ErrorCode::bad_argument, no_peer, "explain",
                              "ring does not apply to an ordered reduction",
                              "these do: recursive_multiplying, recursive_doubling"};
  EXPECT_EQ(
      refusal([&] { selector.select(ordered, Collective::allreduce, {}, "explain"); }, no_ring),
      "");
  EXPECT_EQ(refusal([&] { selector.expected(ordered, Collective::allreduce, "explain"); }, no_ring),
            "");
  EXPECT_EQ(
      refusal([&] { selector.select(ordered, Collective::allreduce, "ring", "explain"); }, no_ring),
      "");
  EXPECT_EQ(selected(selector, ordered, Collective::allreduce, "recursive_multiplying"),
            row(Collective::allreduce, "recursive_multiplying"));
  EXPECT_EQ(refusal([&] { selector.select({.size = 4, .uneven = true}, Collective::gather, {}); },
                    {ErrorCode::bad_argument, no_peer, "",
                     "binomial does not apply to blocks of unequal lengths", "these do: linear"}),
            "");
  EXPECT_EQ(refusal([&] { selector.select({.size = 4}, Collective::scan, "quick"); },
                    {ErrorCode::bad_argument, no_peer, "", "'quick' is no algorithm of scan",
                     "known: doubling, chain, binary_tree, one_shot, one_pass, one_pass_streamed, "
                     "cma, leaders, "
                     "lanes, multiport"}),
            "");
}

TEST(selector, takes_rows_of_a_node_only_there_and_where_they_apply) {
  Selector selector{TopologyParams{.shares_memory = true}};
  EXPECT_EQ(selected(selector, {.size = 4, .bytes = 8, .one_node = true}, Collective::allreduce),
            row(Collective::allreduce, "one_shot"));
  for (const std::size_t bytes :
       std::initializer_list<std::size_t>{4'097, 8'191, 8'192, 8'193, 16'383}) {
    const CallShape shape{.size = 4, .bytes = bytes, .one_node = true};
    EXPECT_TRUE(selected(selector, shape, Collective::allreduce)->applies(shape)) << bytes;
  }
  Selector elsewhere{network};
  EXPECT_EQ(
      refusal(
          [&] { elsewhere.select({.size = 4, .bytes = 8}, Collective::barrier, "one_shot"); },
          {ErrorCode::bad_argument, no_peer, "",
           "one_shot does not apply to ranks that do not share memory", "these do: dissemination"}),
      "");
}

// Whatever the constants say: what was measured must not change results.
TEST(selector, takes_reductions_of_rank_order_where_ranks_share_memory) {
  TopologyParams topology{.shares_memory = true};
  topology.constants.line_s = 1e-3;  // messages would be cheaper
  Selector selector{topology};
  for (const Collective collective :
       {Collective::reduce, Collective::allreduce, Collective::reduce_scatter}) {
    for (std::size_t bytes = 1; bytes <= std::size_t{1} << 30; bytes *= 2) {
      const CallShape shape{.size = 4, .bytes = bytes, .one_node = true, .cma = true};
      EXPECT_EQ(selected(selector, shape, collective)->bits, Bits::of_rank_order);
    }
  }
}

// ---- measured: ranks of this process, all used by the calling thread ----

class Ranks {
 public:
  explicit Ranks(int size, ChoiceBy choice = ChoiceBy::measured) {
    Options options;
    options.choice = choice;
    options.arena_bytes_max = std::int64_t{32} << 20;
    test::ThreadGathering gathering{size};
    ranks_.resize(static_cast<std::size_t>(size));
    const auto errors = test::run_ranks(size, [&](int rank) {
      test::ThreadBootstrap bootstrap{gathering, rank};
      ranks_[static_cast<std::size_t>(rank)].emplace(init(bootstrap, options));
    });
    for (const auto& error : errors) {
      if (error) throw Error{*error};
    }
  }
  Communicator& operator[](std::size_t rank) { return *ranks_[rank]; }
  std::size_t size() const { return ranks_.size(); }

  // Each rank's requests, one after the other: a rank looks once, then it is the next one's turn. A
  // look that finds nothing may give the core away for as long as another process computes.
  static void finish(std::vector<std::vector<Request>>& of_ranks) {
    std::vector<std::size_t> done(of_ranks.size());
    for (bool all_done = false; !all_done;) {
      all_done = true;
      for (std::size_t rank = 0; rank < of_ranks.size(); ++rank) {
        while (done[rank] < of_ranks[rank].size() && of_ranks[rank][done[rank]].test())
          ++done[rank];
        all_done = all_done && done[rank] == of_ranks[rank].size();
      }
    }
  }
  // Every rank calls, then all are waited for.
  template <class Call>
  void together(Call&& call) {
    std::vector<std::vector<Request>> requests(size());
    for (std::size_t rank = 0; rank < size(); ++rank)
      requests[rank].push_back(call((*this)[rank], rank));
    finish(requests);
  }

 private:
  std::vector<std::optional<Communicator>> ranks_;
};

std::vector<double> vector_of(std::size_t rank, std::size_t count) {
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = 1.0 / static_cast<double>(3 + i + 7 * rank) - (rank % 2 == 0 ? 1e10 : -1e10);
  return values;
}

// A result depends on the order in which it is summed up: the same bits mean the same order.
TEST(a_measured_choice, gives_the_bits_of_a_forced_row_in_every_call) {
  Ranks ranks{3};
  for (const std::size_t count : {std::size_t{5}, std::size_t{3'000}}) {
    std::vector<std::vector<double>> given;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) given.push_back(vector_of(rank, count));
    std::vector<std::vector<double>> expected(ranks.size(), std::vector<double>(count));
    ranks.together([&](Communicator& world, std::size_t rank) {
      return world.allreduce_async(given[rank], expected[rank], sum, {.algorithm = "direct"});
    });
    for (int call = 0; call < 150; ++call) {
      std::vector<std::vector<double>> out(ranks.size(), std::vector<double>(count));
      ranks.together([&](Communicator& world, std::size_t rank) {
        return world.allreduce_async(given[rank], out[rank], sum);
      });
      for (const auto& each : out) ASSERT_EQ(each, expected[0]) << "call " << call;
    }
  }
}

// Two operands have one order: with two ranks all rows that are right for ordered reductions may
// run instead of each other.
TEST(two_ranks, get_the_same_bits_from_all_rows_that_are_right_for_ordered_reductions) {
  Ranks ranks{2};
  const CallShape ordered{
      .size = 2, .bytes = 1, .ordered = true, .one_node = true, .element_bytes = 8};
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  for (const std::size_t count : {std::size_t{4}, std::size_t{6'000}}) {
    std::vector<std::vector<double>> given{vector_of(0, count), vector_of(1, count)};
    given[0][0] = -0.0, given[1][0] = 0.0;
    given[0][1] = nan, given[1][1] = 1;
    given[0][2] = 1, given[1][2] = -nan;
    for (const bool of_max : {false, true}) {
      std::vector<std::vector<double>> expected;
      for (const Algorithm* const each : algorithms(Collective::allreduce)) {
        if (!each->applies(ordered)) continue;
        std::vector<std::vector<double>> out(2, std::vector<double>(count));
        const CallOptions options{.algorithm = each->name};
        if (count > 4 && each->name == "one_shot") continue;
        ranks.together([&](Communicator& world, std::size_t rank) {
          return of_max ? world.allreduce_async(given[rank], out[rank], max, options)
                        : world.allreduce_async(given[rank], out[rank], sum, options);
        });
        if (expected.empty()) expected = out;
        for (std::size_t rank = 0; rank < 2; ++rank) {
          EXPECT_EQ(std::memcmp(out[rank].data(), expected[0].data(), count * sizeof(double)), 0)
              << each->name << ", " << count << " elements, rank " << rank
              << (of_max ? ", max" : "");
        }
      }
    }
  }
}

std::map<std::string, std::uint32_t> samples_of(Communicator& world, Collective collective,
                                                std::size_t bytes) {
  std::map<std::string, std::uint32_t> samples;
  for (const Candidate& candidate : world.explain(collective, bytes)) {
    if (candidate.samples > 0) samples[std::string{candidate.algorithm}] = candidate.samples;
    EXPECT_EQ(candidate.samples > 0, candidate.measured_us > 0);
  }
  return samples;
}
std::string chosen(Communicator& world, Collective collective, std::size_t bytes) {
  for (const Candidate& candidate : world.explain(collective, bytes)) {
    if (candidate.chosen) return std::string{candidate.algorithm};
  }
  return "none";
}

TEST(a_measured_choice, is_the_same_at_all_ranks_and_explained) {
  Ranks ranks{3};
  constexpr std::size_t count = 1'000;
  for (int call = 0; call < 300; ++call) {
    std::vector<std::vector<float>> in_place(ranks.size(), std::vector<float>(count, 1));
    ranks.together([&](Communicator& world, std::size_t rank) {
      return world.allreduce_async(in_place[rank], sum);
    });
  }
  for (const std::size_t bytes : {4'000U, 2'049U, 4'096U}) {  // one class
    const auto samples = samples_of(ranks[0], Collective::allreduce, bytes);
    EXPECT_GE(samples.size(), 2U);
    for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
      EXPECT_EQ(samples_of(ranks[rank], Collective::allreduce, bytes), samples);
      EXPECT_EQ(chosen(ranks[rank], Collective::allreduce, bytes),
                chosen(ranks[0], Collective::allreduce, bytes));
    }
  }
  EXPECT_TRUE(samples_of(ranks[0], Collective::allreduce, 8).empty());
  EXPECT_TRUE(samples_of(ranks[0], Collective::broadcast, 4'000).empty());
}

// Rows that stage are made for longer ones. Forced, they run all the same.
TEST(a_measured_choice, tries_nothing_where_one_row_is_meant_for_the_vector) {
  Ranks ranks{2};
  for (int call = 0; call < 300; ++call) {
    std::vector<std::vector<float>> in_place(ranks.size(), std::vector<float>(2, 1));
    ranks.together([&](Communicator& world, std::size_t rank) {
      return world.allreduce_async(in_place[rank], sum,
                                   {.algorithm = call == 200 ? "one_pass_streamed" : ""});
    });
    ASSERT_EQ(in_place[0][1], 2);
  }
  EXPECT_TRUE(samples_of(ranks[0], Collective::allreduce, 8).empty());
  EXPECT_EQ(chosen(ranks[0], Collective::allreduce, 8), "one_shot");
}

TEST(a_predicted_choice, measures_nothing) {
  Ranks ranks{2, ChoiceBy::predicted};
  for (int call = 0; call < 300; ++call)
    ranks.together([](Communicator& world, std::size_t) { return world.barrier_async(); });
  EXPECT_TRUE(samples_of(ranks[0], Collective::barrier, 0).empty());
}

// The calls that wait for a decision, and those behind them, of other collectives too, run in the
// order in which they were called, though rank 0 decides nothing before it calls itself.
TEST(calls_of_a_measured_class, may_all_be_started_before_one_is_waited_for) {
  for (const std::size_t last : {std::size_t{0}, std::size_t{1}, std::size_t{2}}) {
    Ranks ranks{3};
    constexpr int calls = 1'000;
    constexpr std::size_t count = 700;
    std::vector<std::vector<std::vector<std::int64_t>>> out(ranks.size());
    std::vector<std::vector<Request>> requests(ranks.size());
    for (auto& each : out) each.assign(calls, std::vector<std::int64_t>(count));
    const auto start_all = [&](std::size_t rank) {
      for (int call = 0; call < calls; ++call) {
        auto& data = out[rank][static_cast<std::size_t>(call)];
        if (call % 3 == 2) {
          const int root = call % 2;
          if (static_cast<int>(rank) == root) std::ranges::fill(data, call);
          requests[rank].push_back(ranks[rank].broadcast_async(data, root));
        } else {
          std::ranges::fill(data, call + static_cast<std::int64_t>(rank));
          requests[rank].push_back(ranks[rank].allreduce_async(data, sum));
        }
      }
    };
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      if (rank != last) start_all(rank);
    }
    start_all(last);
    Ranks::finish(requests);
    for (int call = 0; call < calls; ++call) {
      for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
        const std::int64_t expected = call % 3 == 2 ? call : 3 * call + 3;
        ASSERT_EQ(out[rank][static_cast<std::size_t>(call)],
                  std::vector<std::int64_t>(count, expected))
            << "call " << call << " at rank " << rank;
      }
    }
  }
}

// Lengths of one class of which some have no room in a slot, and v-forms, averages and forced rows
// between.
TEST(calls_of_a_measured_class, may_be_of_many_kinds) {
  Ranks ranks{2};
  for (int call = 0; call < 400; ++call) {
    const std::size_t count = 1'025 + static_cast<std::size_t>(call * 37 % 1'023);
    std::vector<std::vector<double>> data(2, std::vector<double>(count, call));
    ranks.together([&](Communicator& world, std::size_t rank) {
      return call % 5 == 0 ? world.allreduce_async(data[rank], average)
                           : world.allreduce_async(data[rank], max);
    });
    ASSERT_EQ(data[0], std::vector<double>(count, call));
    const std::array<std::size_t, 2> lengths{1, count - 1};
    std::vector<std::vector<double>> out(2, std::vector<double>(count));
    ranks.together([&](Communicator& world, std::size_t rank) {
      return world.allgather_async(std::span{data[rank]}.first(lengths[rank]),
                                   blocks(out[rank], lengths));
    });
    ASSERT_EQ(out[0], data[0]);
    ASSERT_EQ(out[1], data[0]);
  }
}

}  // namespace
