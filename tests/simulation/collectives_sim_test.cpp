// Collectives of many sizes, on simulated networks.
#include <gtest/gtest.h>

#include "collectives/registry.hpp"
#include "communicator_state.hpp"
#include "simulation/scenarios.hpp"

namespace qpmesh::test {
namespace {

// Cheaper, for many ranks: writes in few pieces, looked at now and then.
NetworkConfig few_pieces(NetworkConfig config) {
  config.pieces_max = 2;
  config.peek_probability = 0.1;
  return config;
}

const Flavour& flavour_of(int n) { return flavours()[static_cast<std::size_t>(n) % flavours().size()]; }

class EveryAllreduce : public testing::TestWithParam<std::string_view> {};

TEST_P(EveryAllreduce, equals_the_sequential_sum_for_every_number_of_ranks) {
  for (int size = 1; size <= 33; ++size) {
    const auto ranks = static_cast<std::size_t>(size);
    const NetworkConfig network = few_pieces(flavour_of(size).config(size, static_cast<std::uint64_t>(size)));
    const Outcome outcome = random_collectives(
        {.network = network, .allreduce = GetParam(), .counts = {0, 1, ranks - 1, ranks, ranks + 1, 1'000}});
    ASSERT_EQ(outcome.wrong, "") << flavour_of(size).name;
  }
}

TEST_P(EveryAllreduce, equals_the_sequential_sum_around_every_boundary_on_every_network) {
  for (const Flavour& flavour : flavours()) {
    for (const int size : {2, 3, 5, 8}) {
      const Outcome outcome = random_collectives(
          {.network = flavour.config(size, 9),
           .allreduce = GetParam(),
           .counts = {2, 7, 8, 9, 16, 21, 22, 41, 42, 43, 127, 128, 129, 256, 513, 4'097}});
      ASSERT_EQ(outcome.wrong, "") << flavour.name;
    }
  }
}

TEST_P(EveryAllreduce, runs_in_several_communicators_at_once) {
  for (const Flavour& flavour : flavours()) {
    const Outcome outcome = random_collectives({.network = flavour.config(6, 4),
                                                .allreduce = GetParam(),
                                                .counts = {5, 200, 3'000},
                                                .communicators = 8});
    ASSERT_EQ(outcome.wrong, "") << flavour.name;
  }
}

INSTANTIATE_TEST_SUITE_P(all, EveryAllreduce, testing::Values("exchange", "circulant", "ring"),
                         [](const auto& name) { return std::string{name.param}; });

// It is for more ranks than exchange in one round. Counts on either side of where it cuts, and cuts in halves.
TEST(butterfly, equals_the_sequential_sum_of_many_ranks) {
  for (const int size : {17, 18, 23, 32, 33, 64, 67}) {
    const NetworkConfig network = few_pieces(flavour_of(size).config(size, 5));
    const Outcome outcome = random_collectives(
        {.network = network, .allreduce = "butterfly", .counts = {0, 1, 7, 300, 2'049, 9'001}});
    ASSERT_EQ(outcome.wrong, "") << flavour_of(size).name;
  }
}

TEST(collectives, three_hundred_ranks_reduce_and_meet) {
  NetworkConfig network = transport::simulated::polled_network(300, 1);
  network.pieces_max = 1;
  network.peek_probability = 0;
  const Outcome outcome = random_collectives({.network = network, .allreduce = "circulant", .counts = {301}});
  EXPECT_EQ(outcome.wrong, "");
}

TEST(collectives, a_seed_repeats_its_trace) {
  const Collectives collectives{
      .network = transport::simulated::polled_network(7, 3), .allreduce = "circulant", .counts = {100}};
  EXPECT_EQ(random_collectives(collectives).trace, random_collectives(collectives).trace);
}

}  // namespace
}  // namespace qpmesh::test
