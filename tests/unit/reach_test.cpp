// SPDX-License-Identifier: MIT
// By what each pair of ranks is joined: a function of nodes and options, the same on every rank.
#include <gtest/gtest.h>

#include "startup/reach.hpp"

namespace qpmesh::startup {
namespace {

using Ranks = std::vector<base::RankIdentity>;

Ranks on_nodes(const std::vector<int>& nodes) {
  Ranks ranks;
  ranks.reserve(nodes.size());
  for (const int node : nodes)
    ranks.push_back(
        {.host = "host" + std::to_string(node), .pid = 1, .place = {}, .node = node, .facts = {}});
  return ranks;
}

Options with(TransportChoice transport, Requirement require = Requirement::nothing) {
  Options options;
  options.transport = transport;
  options.require = require;
  return options;
}

TEST(reach, of_ranks_on_one_node_is_shared_memory_and_nothing_is_gathered) {
  const Ranks ranks = on_nodes({0, 0, 0});
  for (const TransportChoice transport : {TransportChoice::automatic, TransportChoice::shm}) {
    const Reach reach{with(transport), ranks};
    EXPECT_FALSE(reach.any(Way::verbs));
    EXPECT_FALSE(reach.any(Way::tcp));
    EXPECT_EQ(reach.way(0, 2), Way::shm);
    EXPECT_EQ(reach.describe(1), "peers: 2 by shm");
  }
}

TEST(reach, by_tcp_alone_is_tcp_on_a_node_too_but_not_to_oneself) {
  const Ranks ranks = on_nodes({0, 0, 1});
  const Reach reach{with(TransportChoice::tcp), ranks};
  EXPECT_EQ(reach.way(0, 1), Way::tcp);
  EXPECT_EQ(reach.way(2, 1), Way::tcp);
  EXPECT_EQ(reach.way(1, 1), Way::shm);
  EXPECT_FALSE(reach.any(Way::verbs));
  EXPECT_TRUE(reach.any(Way::tcp));
  EXPECT_TRUE(reach.uses_network_on_node());
  EXPECT_EQ(reach.describe(0), "peers: 2 by tcp; no verbs: QPMESH_TRANSPORT=tcp");
}

TEST(reach, of_a_lone_rank_needs_nothing) {
  const Ranks ranks = on_nodes({0});
  const Reach reach{with(TransportChoice::tcp), ranks};
  EXPECT_FALSE(reach.any(Way::tcp));
  EXPECT_EQ(reach.describe(0), "peers: none");
}

TEST(reach, refuses_ranks_of_two_nodes_when_only_shared_memory_is_allowed) {
  try {
    const Ranks ranks = on_nodes({0, 0, 1});
    const Reach reach{with(TransportChoice::shm), ranks};
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::no_resource);
    EXPECT_EQ(error.peer(), 2);
    EXPECT_EQ(error.operation(), "init");
    EXPECT_EQ(error.cause(),
              "rank 0 (on host0) and rank 2 (on host1) share no memory, and QPMESH_TRANSPORT=shm "
              "allows nothing else");
    EXPECT_EQ(error.hint(), "leave QPMESH_TRANSPORT out");
  }
}

TEST(reach, names_what_two_ranks_of_one_host_differ_in) {
  auto ranks = on_nodes({0, 1});
  ranks[0].place = {
      .boot_id = "a", .uid = 0, .pid_namespace = 1, .net_namespace = 2, .user_namespace = 3};
  ranks[1].place = {
      .boot_id = "a", .uid = 1000, .pid_namespace = 1, .net_namespace = 2, .user_namespace = 4};
  const std::string what = "(one host, but they differ: users 0 and 1000, user namespaces 3 and 4)";
  try {
    const Reach reach{with(TransportChoice::shm), ranks};
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(error.cause().find(what), std::string::npos) << error.cause();
  }
}

Options encrypted(Options options) {
  options.encrypt = true;
  return options;
}

TEST(reach, of_encrypted_ranks_is_tcp_between_nodes_and_memory_on_them) {
  const Ranks ranks = on_nodes({0, 0, 1});
  const Reach reach{encrypted({}), ranks};
  EXPECT_FALSE(reach.any(Way::verbs));
  EXPECT_EQ(reach.way(0, 1), Way::shm);
  EXPECT_EQ(reach.way(0, 2), Way::tcp);
  EXPECT_EQ(reach.describe(0),
            "peers: 1 by shm, 1 by tcp; rank 2 shares no memory; no verbs: QPMESH_ENCRYPT=yes");
}

TEST(reach, refuses_rdma_that_is_asked_for_where_ranks_are_to_be_encrypted) {
  const Ranks ranks = on_nodes({0, 1});
  Options device;
  device.device = "rxe0";
  for (const Options& options : {with(TransportChoice::verbs), with(TransportChoice::verbs_and_shm),
                                 with(TransportChoice::automatic, Requirement::rdma), device}) {
    try {
      const Reach reach{encrypted(options), ranks};
      FAIL() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_config);
      EXPECT_EQ(error.operation(), "init");
      EXPECT_EQ(error.cause(),
                "RDMA is asked for, which QPMESH_ENCRYPT=yes excludes: it is not encrypted");
      EXPECT_EQ(error.hint(), "leave QPMESH_TRANSPORT, _REQUIRE, _DEVICE and _GID_INDEX out");
    }
  }
}

#ifdef QPMESH_WITH_VERBS

TEST(reach, of_ranks_on_two_nodes_is_the_network_between_them_only) {
  const Ranks ranks = on_nodes({0, 0, 1});
  const Reach reach{with(TransportChoice::automatic), ranks};
  EXPECT_TRUE(reach.any(Way::verbs));
  EXPECT_FALSE(reach.any(Way::tcp));
  EXPECT_EQ(reach.way(0, 1), Way::shm);
  EXPECT_EQ(reach.way(0, 2), Way::verbs);
  EXPECT_EQ(reach.way(2, 1), Way::verbs);
}

TEST(reach, of_a_pair_that_verbs_cannot_join_is_tcp_and_says_why) {
  Ranks ranks = on_nodes({0, 0, 1, 2});
  ranks[0].place.uid = 7;
  ranks[3].place.uid = 8;
  Reach reach{with(TransportChoice::automatic), ranks};
  EXPECT_TRUE(reach.pairs_may_fall_back());
  reach.pair_falls_back(3, 0, "no device");
  EXPECT_EQ(reach.way(0, 3), Way::tcp);
  EXPECT_EQ(reach.way(3, 0), Way::tcp);
  EXPECT_EQ(reach.way(1, 3), Way::verbs);
  EXPECT_TRUE(reach.any(Way::verbs));
  EXPECT_TRUE(reach.any(Way::tcp));
  EXPECT_EQ(reach.describe(0),
            "peers: 1 by shm, 1 by verbs, 1 by tcp; rank 2 shares no memory (one host, but they "
            "differ: users 7 and 0); no verbs: no device");
}

TEST(reach, without_verbs_anywhere_is_tcp_between_nodes) {
  const Ranks ranks = on_nodes({0, 0, 1});
  Reach reach{with(TransportChoice::automatic), ranks};
  EXPECT_TRUE(reach.may_fall_back());
  reach.fall_back("no device");
  EXPECT_FALSE(reach.any(Way::verbs));
  EXPECT_TRUE(reach.any(Way::tcp));
  EXPECT_EQ(reach.way(0, 1), Way::shm);
  EXPECT_EQ(reach.way(0, 2), Way::tcp);
}

TEST(reach, by_verbs_alone_is_the_network_on_a_node_too_but_not_to_oneself) {
  const Ranks ranks = on_nodes({0, 0});
  const Reach reach{with(TransportChoice::verbs), ranks};
  EXPECT_EQ(reach.way(0, 1), Way::verbs);
  EXPECT_EQ(reach.way(1, 1), Way::shm);
  EXPECT_FALSE(reach.may_fall_back());
  EXPECT_FALSE(reach.pairs_may_fall_back());
}

TEST(reach, falls_back_to_shared_memory_where_the_options_name_it_and_all_ranks_share_a_node) {
  const Ranks ranks = on_nodes({0, 0});
  Reach reach{with(TransportChoice::verbs_and_shm), ranks};
  EXPECT_EQ(reach.way(0, 1), Way::verbs);
  EXPECT_TRUE(reach.may_fall_back());
  EXPECT_FALSE(reach.pairs_may_fall_back());
  reach.fall_back("no device");
  EXPECT_EQ(reach.way(0, 1), Way::shm);
  EXPECT_FALSE(reach.any(Way::verbs));
  EXPECT_FALSE(reach.any(Way::tcp));
  const Ranks apart = on_nodes({0, 0, 1});
  EXPECT_FALSE((Reach{with(TransportChoice::verbs_and_shm), apart}.may_fall_back()));
}

TEST(reach, never_falls_back_where_rdma_is_required) {
  const Ranks ranks = on_nodes({0, 0});
  EXPECT_FALSE(
      (Reach{with(TransportChoice::verbs_and_shm, Requirement::rdma), ranks}.may_fall_back()));
  const Ranks apart = on_nodes({0, 1});
  const Reach reach{with(TransportChoice::automatic, Requirement::rdma), apart};
  EXPECT_FALSE(reach.may_fall_back());
  EXPECT_FALSE(reach.pairs_may_fall_back());
}

#endif

}  // namespace
}  // namespace qpmesh::startup
