// Which pairs of ranks use the network: a function of nodes and options, the same on every rank.
#include <gtest/gtest.h>

#include "startup/verbs_bring_up.hpp"

namespace qpmesh::startup {
namespace {

std::vector<base::RankIdentity> on_nodes(const std::vector<int>& nodes) {
  std::vector<base::RankIdentity> ranks;
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
  for (const TransportChoice transport : {TransportChoice::automatic, TransportChoice::shm}) {
    const Reach reach{with(transport), on_nodes({0, 0, 0})};
    EXPECT_FALSE(reach.any_by_network());
    EXPECT_FALSE(reach.by_network(0, 2));
  }
}

TEST(reach, refuses_ranks_of_two_nodes_when_only_shared_memory_is_allowed) {
  try {
    const Reach reach{with(TransportChoice::shm), on_nodes({0, 0, 1})};
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::no_resource);
    EXPECT_EQ(error.peer(), 2);
    EXPECT_EQ(error.operation(), "init");
    EXPECT_TRUE(
        error.cause().starts_with("rank 0 (on host0) and rank 2 (on host1) share no memory, and "))
        << error.cause();
    EXPECT_FALSE(error.hint().empty());
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

#ifdef QPMESH_WITH_VERBS

TEST(reach, of_ranks_on_two_nodes_is_the_network_between_them_only) {
  const Reach reach{with(TransportChoice::automatic), on_nodes({0, 0, 1})};
  EXPECT_TRUE(reach.any_by_network());
  EXPECT_FALSE(reach.by_network(0, 1));
  EXPECT_TRUE(reach.by_network(0, 2));
  EXPECT_TRUE(reach.by_network(2, 1));
  EXPECT_FALSE(reach.may_fall_back());
}

TEST(reach, by_verbs_alone_is_the_network_on_a_node_too_but_not_to_oneself) {
  const Reach reach{with(TransportChoice::verbs), on_nodes({0, 0})};
  EXPECT_TRUE(reach.by_network(0, 1));
  EXPECT_FALSE(reach.by_network(1, 1));
  EXPECT_FALSE(reach.may_fall_back());
}

TEST(reach, falls_back_to_shared_memory_where_the_options_name_it_and_all_ranks_share_a_node) {
  Reach reach{with(TransportChoice::verbs_and_shm), on_nodes({0, 0})};
  EXPECT_TRUE(reach.by_network(0, 1));
  EXPECT_TRUE(reach.may_fall_back());
  reach.fall_back();
  EXPECT_FALSE(reach.by_network(0, 1));
  EXPECT_FALSE(reach.any_by_network());
  EXPECT_FALSE((Reach{with(TransportChoice::verbs_and_shm), on_nodes({0, 0, 1})}.may_fall_back()));
}

TEST(reach, never_falls_back_where_rdma_is_required) {
  EXPECT_FALSE((Reach{with(TransportChoice::verbs_and_shm, Requirement::rdma), on_nodes({0, 0})}
                    .may_fall_back()));
}

#endif

}  // namespace
}  // namespace qpmesh::startup
