// SPDX-License-Identifier: MIT
// The rule by which rings between nodes shrink, for every number of peers.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>

#include "qpmesh/options.hpp"
#include "startup/network_rings.hpp"

namespace qpmesh::startup {
namespace {

constexpr std::int64_t kib = 1 << 10;
constexpr std::int64_t peers_max = 5'000;

// Of every length that the options may have.
void for_each_wanted(auto&& check) {
  for (const std::int64_t full : {full_verbs_rings_max, full_tcp_rings_max}) {
    for (std::int64_t wanted = 4 * kib; wanted <= 16'384 * kib; wanted *= 2) check(wanted, full);
  }
}

TEST(network_rings, are_as_long_as_wanted_for_a_few_peers) {
  for_each_wanted([](std::int64_t wanted, std::int64_t full) {
    for (std::int64_t peers = 0; peers <= full; ++peers)
      ASSERT_EQ(ring_bytes_for(peers, wanted, full), wanted) << peers << " peers";
  });
}

TEST(network_rings,
     of_a_rank_are_together_no_longer_than_those_of_a_few_peers_until_each_is_shortest) {
  for_each_wanted([](std::int64_t wanted, std::int64_t full) {
    const std::int64_t shortest = std::min(wanted, 8 * kib);
    for (std::int64_t peers = 1; peers <= peers_max; ++peers) {
      const std::int64_t bytes = ring_bytes_for(peers, wanted, full);
      ASSERT_TRUE(bytes == shortest || bytes * peers <= full * wanted) << peers << " of " << wanted;
      ASSERT_GE(bytes, shortest) << peers << " of " << wanted;
    }
  });
}

TEST(network_rings, are_no_shorter_than_they_must_be) {
  for_each_wanted([](std::int64_t wanted, std::int64_t full) {
    for (std::int64_t peers = 1; peers <= peers_max; ++peers) {
      const std::int64_t bytes = ring_bytes_for(peers, wanted, full);
      ASSERT_TRUE(bytes == wanted || 2 * bytes * peers > full * wanted)
          << peers << " of " << wanted;
    }
  });
}

TEST(network_rings, never_grow_with_the_peers_and_are_powers_of_two) {
  for_each_wanted([](std::int64_t wanted, std::int64_t full) {
    std::int64_t before = wanted;
    for (std::int64_t peers = 1; peers <= peers_max; ++peers) {
      const std::int64_t bytes = ring_bytes_for(peers, wanted, full);
      ASSERT_TRUE(std::has_single_bit(static_cast<std::uint64_t>(bytes)));
      ASSERT_LE(bytes, before) << peers << " of " << wanted;
      before = bytes;
    }
  });
}

TEST(network_rings, over_verbs_by_default_are_of_128_kib_up_to_16_peers_and_of_8_kib_from_129_on) {
  const std::int64_t wanted = Options{}.network_ring_bytes;
  const auto bytes = [=](std::int64_t peers) {
    return ring_bytes_for(peers, wanted, full_verbs_rings_max);
  };
  EXPECT_EQ(bytes(16), 128 * kib);
  EXPECT_EQ(bytes(17), 64 * kib);
  EXPECT_EQ(bytes(64), 32 * kib);
  EXPECT_EQ(bytes(65), 16 * kib);
  EXPECT_EQ(bytes(128), 16 * kib);
  EXPECT_EQ(bytes(129), 8 * kib);
  EXPECT_EQ(bytes(peers_max), 8 * kib);
}

}  // namespace
}  // namespace qpmesh::startup
