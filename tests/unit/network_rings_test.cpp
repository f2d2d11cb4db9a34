// The rule by which rings between nodes shrink, for every number of peers.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>

#include "startup/network_rings.hpp"

namespace qpmesh::startup {
namespace {

constexpr std::int64_t kib = 1 << 10;
constexpr std::int64_t peers_max = 5'000;

// Of every length that the option may have.
void for_each_wanted(auto&& check) {
  for (std::int64_t wanted = 4 * kib; wanted <= 1'024 * kib; wanted *= 2) check(wanted);
}

TEST(network_rings, are_as_long_as_wanted_for_up_to_64_peers) {
  for_each_wanted([](std::int64_t wanted) {
    for (std::int64_t peers = 0; peers <= 64; ++peers)
      ASSERT_EQ(ring_bytes_for(peers, wanted), wanted) << peers << " peers";
  });
}

TEST(network_rings, of_a_rank_are_together_no_longer_than_64_wanted_ones_until_each_is_shortest) {
  for_each_wanted([](std::int64_t wanted) {
    const std::int64_t shortest = std::min(wanted, 8 * kib);
    for (std::int64_t peers = 1; peers <= peers_max; ++peers) {
      const std::int64_t bytes = ring_bytes_for(peers, wanted);
      ASSERT_TRUE(bytes == shortest || bytes * peers <= 64 * wanted) << peers << " of " << wanted;
      ASSERT_GE(bytes, shortest) << peers << " of " << wanted;
    }
  });
}

TEST(network_rings, are_no_shorter_than_they_must_be) {
  for_each_wanted([](std::int64_t wanted) {
    for (std::int64_t peers = 1; peers <= peers_max; ++peers) {
      const std::int64_t bytes = ring_bytes_for(peers, wanted);
      ASSERT_TRUE(bytes == wanted || 2 * bytes * peers > 64 * wanted) << peers << " of " << wanted;
    }
  });
}

TEST(network_rings, never_grow_with_the_peers_and_are_powers_of_two) {
  for_each_wanted([](std::int64_t wanted) {
    std::int64_t before = wanted;
    for (std::int64_t peers = 1; peers <= peers_max; ++peers) {
      const std::int64_t bytes = ring_bytes_for(peers, wanted);
      ASSERT_TRUE(std::has_single_bit(static_cast<std::uint64_t>(bytes)));
      ASSERT_LE(bytes, before) << peers << " of " << wanted;
      before = bytes;
    }
  });
}

TEST(network_rings, by_default_are_of_16_kib_from_65_peers_on_and_of_8_kib_from_129_on) {
  EXPECT_EQ(ring_bytes_for(64, 32 * kib), 32 * kib);
  EXPECT_EQ(ring_bytes_for(65, 32 * kib), 16 * kib);
  EXPECT_EQ(ring_bytes_for(128, 32 * kib), 16 * kib);
  EXPECT_EQ(ring_bytes_for(129, 32 * kib), 8 * kib);
  EXPECT_EQ(ring_bytes_for(peers_max, 32 * kib), 8 * kib);
}

}  // namespace
}  // namespace qpmesh::startup
