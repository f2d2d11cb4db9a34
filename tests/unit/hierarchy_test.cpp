// SPDX-License-Identifier: MIT
// Communicators on several nodes: who is where, and every row for them on two hosts with networks
// of their own.
#include "collectives/hierarchy.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "qpmesh/qpmesh.hpp"
#include "tests/support/thread_bootstrap.hpp"
#include "tests/support/two_hosts.hpp"

namespace {

using namespace qpmesh;
using collectives::Levels;
using collectives::Placement;
using test::run_ranks;
using test::ThreadBootstrap;
using test::ThreadGathering;
using test::TwoHosts;
using testing::ElementsAre;

// ---- who is where ----

TEST(placement, numbers_nodes_by_their_first_ranks_and_ranks_by_their_order) {
  const Placement placement{std::vector<int>{7, 3, 7, 9, 3, 7}};
  EXPECT_EQ(placement.nodes(), 3);
  EXPECT_THAT(placement.ranks_of(0), ElementsAre(0, 2, 5));
  EXPECT_THAT(placement.ranks_of(1), ElementsAre(1, 4));
  EXPECT_THAT(placement.ranks_of(2), ElementsAre(3));
  EXPECT_THAT(placement.ranks(), ElementsAre(0, 2, 5, 1, 4, 3));
  EXPECT_EQ(placement.node_of(4), 1);
  EXPECT_EQ(placement.index_of(4), 1);
  EXPECT_EQ(placement.levels(),
            (Levels{.nodes = 3, .node_ranks_min = 1, .node_ranks_max = 3, .in_order = false}));
}

TEST(placement, tells_ranks_that_follow_one_another_on_their_nodes) {
  EXPECT_TRUE((Placement{std::vector<int>{4, 4, 1, 1, 1}}.levels().in_order));
  EXPECT_FALSE((Placement{std::vector<int>{4, 1, 4}}.levels().in_order));
}

TEST(placement, on_one_node_or_of_single_ranks_has_no_levels) {
  EXPECT_EQ((Placement{std::vector<int>{2, 2, 2}}.levels()), Levels{});
  EXPECT_EQ((Placement{std::vector<int>{0, 1, 2}}.levels()), Levels{});
  EXPECT_EQ((Placement{std::vector<int>{0}}.levels()), Levels{});
}

// ---- pieces ----

TEST(pieces, are_as_many_as_are_worth_it) {
  const collectives::TopologyParams network{};
  int last = 1;
  for (std::size_t bytes = 0; bytes < std::size_t{64} << 20; bytes = 2 * bytes + 100) {
    const int count = collectives::piece_count(bytes, network);
    EXPECT_GE(count, last);
    EXPECT_LE(count, collectives::pieces_max);
    last = count;
  }
  EXPECT_EQ(last, collectives::pieces_max);
  EXPECT_EQ(collectives::piece_count(64 << 10, network), 1);
  EXPECT_EQ(collectives::piece_count(64 << 20, {.ranks_per_core = 2}), 1);  // they would take turns
}

// ---- on two hosts ----

class OnTwoNodes : public testing::TestWithParam<std::vector<int>> {
 protected:
  void SetUp() override {
    if (!hosts_.problem().empty()) GTEST_SKIP() << hosts_.problem();
  }

  template <class Run>
  void run(const Run& run_rank) {
    const int size = static_cast<int>(GetParam().size());
    ThreadGathering gathering{size};
    const auto errors = run_ranks(size, [&](int rank) {
      hosts_.enter(GetParam()[static_cast<std::size_t>(rank)]);
      ThreadBootstrap ranks{gathering, rank};
      Options options;
      options.init_timeout_ms = options.operation_timeout_ms = 20'000;
      Communicator world = init(ranks, options);
      run_rank(world);
      world.finish();
    });
    for (const auto& error : errors) EXPECT_FALSE(error) << error->what();
  }

  TwoHosts hosts_;
};
INSTANTIATE_TEST_SUITE_P(placed, OnTwoNodes,
                         testing::Values(std::vector<int>{0, 0, 1, 1}, std::vector<int>{0, 1, 0, 1},
                                         std::vector<int>{0, 0, 0, 1},
                                         std::vector<int>{1, 0, 0, 1, 0}),
                         [](const auto& nodes) {
                           std::string name;
                           for (const int node : nodes.param) name += std::to_string(node);
                           return name;
                         });

// Every rank's vectors, as the library and as a loop has them.
struct Vectors {
  Vectors(const Communicator& world, std::size_t elements)
      : rank{static_cast<std::size_t>(world.rank())},
        size{static_cast<std::size_t>(world.size())},
        count{elements} {}

  int value(std::size_t of_rank, std::size_t i) const {
    return static_cast<int>(1'000 * of_rank + i % 977);
  }
  std::vector<int> of(std::size_t of_rank, std::size_t length) const {
    std::vector<int> vector(length);
    for (std::size_t i = 0; i < length; ++i) vector[i] = value(of_rank, i);
    return vector;
  }
  std::vector<int> sum_of(std::size_t ranks, std::size_t length) const {  // the first ones
    std::vector<int> all(length);
    for (std::size_t each = 0; each < ranks; ++each) {
      for (std::size_t i = 0; i < length; ++i) all[i] += value(each, i);
    }
    return all;
  }
  std::vector<int> sum_of_all(std::size_t length) const { return sum_of(size, length); }
  std::vector<int> gathered() const {
    std::vector<int> all;
    for (std::size_t each = 0; each < size; ++each) {
      const std::vector<int> block = of(each, count);
      all.insert(all.end(), block.begin(), block.end());
    }
    return all;
  }
  std::vector<int> block(const std::vector<int>& all, std::size_t number) const {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(number * count);
    return {begin, begin + static_cast<std::ptrdiff_t>(count)};
  }

  std::size_t rank;
  std::size_t size;
  std::size_t count;
};

void call(Communicator& world, Collective collective, int root, std::size_t count,
          const CallOptions& options) {
  const Vectors vectors{world, count};
  const bool is_root = world.rank() == root;
  const std::vector<int> mine = vectors.of(vectors.rank, count);
  const std::size_t all_count = count * vectors.size;
  switch (collective) {
    case Collective::barrier: world.barrier(options); return;
    case Collective::broadcast: {
      const std::vector<int> expected = vectors.of(99, count);
      std::vector<int> data = is_root ? expected : std::vector<int>(count);
      world.broadcast(data, root, options);
      ASSERT_EQ(data, expected);
      return;
    }
    case Collective::reduce: {
      std::vector<int> out(is_root ? count : 0);
      world.reduce(mine, out, sum, root, options);
      ASSERT_EQ(out, is_root ? vectors.sum_of_all(count) : std::vector<int>{});
      return;
    }
    case Collective::allreduce: {
      std::vector<int> data = mine;
      world.allreduce(data, sum, options);
      ASSERT_EQ(data, vectors.sum_of_all(count));
      return;
    }
    case Collective::allgather: {
      std::vector<int> out(all_count);
      world.allgather(mine, out, options);
      ASSERT_EQ(out, vectors.gathered());
      return;
    }
    case Collective::reduce_scatter: {
      std::vector<int> out(count);
      world.reduce_scatter(vectors.of(vectors.rank, all_count), out, sum, options);
      ASSERT_EQ(out, vectors.block(vectors.sum_of_all(all_count), vectors.rank));
      return;
    }
    case Collective::gather: {
      std::vector<int> out(is_root ? all_count : 0);
      world.gather(mine, out, root, options);
      ASSERT_EQ(out, is_root ? vectors.gathered() : std::vector<int>{});
      return;
    }
    case Collective::scatter: {
      const std::vector<int> all = vectors.of(3, all_count);
      std::vector<int> out(count);
      world.scatter(is_root ? all : std::vector<int>{}, out, root, options);
      ASSERT_EQ(out, vectors.block(all, vectors.rank));
      return;
    }
    case Collective::alltoall: {
      std::vector<int> out(all_count);
      world.alltoall(vectors.of(vectors.rank, all_count), out, options);
      for (std::size_t from = 0; from < vectors.size; ++from) {
        ASSERT_EQ(vectors.block(out, from),
                  vectors.block(vectors.of(from, all_count), vectors.rank));
      }
      return;
    }
    case Collective::scan:
    case Collective::exscan: {
      const bool own_too = collective == Collective::scan;
      const std::size_t last = vectors.rank + (own_too ? 1 : 0);  // the first one that is not in it
      for (const bool in_place : {false, true}) {
        std::vector<int> out = in_place ? mine : std::vector<int>(count, -1);
        const std::vector<int> expected = last == 0 ? out : vectors.sum_of(last, count);
        const std::vector<int>& in = in_place ? out : mine;
        if (own_too) world.scan(in, out, sum, options);
        else world.exscan(in, out, sum, options);
        ASSERT_EQ(out, expected);
      }
      return;
    }
  }
}

bool is_for_nodes(std::string_view algorithm) {
  return algorithm == "leaders" || algorithm == "lanes" || algorithm.starts_with("multiport");
}

TEST_P(OnTwoNodes, every_row_for_several_nodes_computes_what_a_loop_does) {
  run([&](Communicator& world) {
    int rows = 0;
    for (int i = 0; i < static_cast<int>(collective_count); ++i) {
      const auto collective = static_cast<Collective>(i);
      for (const Candidate& row : world.explain(collective, 64)) {
        if (!row.applies || !is_for_nodes(row.algorithm)) continue;
        ++rows;
        for (const std::size_t count : {1U, 30U, 1'000U, 20'000U, 100'000U}) {
          for (const int root : {0, world.size() - 1}) {
            call(world, collective, root, count, {.algorithm = row.algorithm});
            if (testing::Test::HasFatalFailure()) return;
          }
        }
      }
    }
    EXPECT_GE(rows, 10);
  });
}

TEST_P(OnTwoNodes, operands_keep_the_order_of_ranks_that_follow_one_another) {
  const auto& nodes = GetParam();
  if (!std::ranges::is_sorted(nodes)) return;  // tests/simulation shows that others are refused
  run([&](Communicator& world) {
    // Affine maps: composing them is associative, and the order shows.
    struct Map {
      int factor;
      int term;
      bool operator==(const Map&) const = default;
    };
    const auto after = [](Map left, Map right) {
      return Map{left.factor * right.factor, right.factor * left.term + right.term};
    };
    const auto compose = [&](const Map* left, Map* inout, std::size_t count) {
      for (std::size_t i = 0; i < count; ++i) inout[i] = after(left[i], inout[i]);
    };
    const auto of = [](int rank) { return Map{rank % 3 + 1, rank + 1}; };
    Map expected{1, 0};
    Map before{1, 0};  // of the ranks before this one
    for (int rank = 0; rank < world.size(); ++rank) {
      if (rank < world.rank()) before = after(before, of(rank));
      expected = after(expected, of(rank));
    }
    for (const std::string_view algorithm : {"leaders", "lanes"}) {
      for (const std::size_t count : {50U, 100'000U}) {
        std::vector<Map> maps(count, of(world.rank()));
        world.allreduce(maps, ordered(compose), {.algorithm = algorithm});
        EXPECT_EQ(maps, std::vector<Map>(count, expected)) << algorithm;
        std::ranges::fill(maps, of(world.rank()));
        world.scan(maps, maps, ordered(compose), {.algorithm = algorithm});
        EXPECT_EQ(maps, std::vector<Map>(count, after(before, of(world.rank())))) << algorithm;
        std::ranges::fill(maps, of(world.rank()));
        world.exscan(maps, maps, ordered(compose), {.algorithm = algorithm});
        EXPECT_EQ(maps, std::vector<Map>(count, world.rank() == 0 ? of(0) : before)) << algorithm;
      }
    }
  });
}

TEST_P(OnTwoNodes, parts_of_the_world_have_levels_or_one_node_of_their_own) {
  run([&](Communicator& world) {
    Communicator copy = world.duplicate();
    Communicator node = world.split_node();
    Communicator across = *world.split(node.rank(), 0);
    const auto applies = [](const Communicator& of, std::string_view algorithm) {
      for (const Candidate& row : of.explain(Collective::allreduce, 64)) {
        if (row.algorithm == algorithm) return row.applies;
      }
      return false;
    };
    EXPECT_TRUE(applies(copy, "leaders"));
    EXPECT_FALSE(applies(node, "leaders"));
    EXPECT_FALSE(applies(across, "leaders"));
    EXPECT_EQ(applies(node, "one_shot"), node.size() > 1);
    for (Communicator* const part : {&copy, &node, &across}) {
      std::vector<int> ones(1'000, 1);
      part->allreduce(ones, sum);
      EXPECT_EQ(ones, std::vector<int>(1'000, part->size()));
    }
  });
}

}  // namespace
