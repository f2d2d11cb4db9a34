// SPDX-License-Identifier: MIT
// By which ports and GIDs ranks connect: pure functions of all ranks' offers, so that every rank
// comes to the same result by itself.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "transport/verbs/selection/choice.hpp"

namespace qpmesh::transport::verbs::selection {

// How two endpoints lie to each other.
enum class Proximity : std::uint8_t { unreachable, other_subnet, same_subnet };
Proximity proximity(const Endpoint& a, const Endpoint& b) noexcept;

// Two endpoints that can be connected, as indexes into the two offers.
struct Pair {
  std::size_t low = 0;  // of the lower rank's offer
  std::size_t high = 0;
  auto operator<=>(const Pair&) const = default;
};
struct Pairs {
  // Best first: same subnet, then the lower rank's order, then the higher's.
  std::vector<Pair> pairs{};
  Explanation why_none{};
};
// Both ends call it alike, with the lower rank's offer first.
Pairs pairs(const Offer& low, const Offer& high);

// A rank's device and port. It uses one per context, or one for each of two rails.
struct PortChoice {
  std::string device{};
  int port = 0;  // 0: the rank offered nothing
  bool operator==(const PortChoice&) const = default;
};
// For every rank: ports that together let all ranks reach each other where there is a network that
// all share, and otherwise many; within one subnet where that is possible; then the best scores.
// Ranks with the same node_ids[rank] need no verbs between them; empty: all need all others.
std::vector<PortChoice> choose_ports(std::span<const Offer> offers, std::span<const int> node_ids);
// The endpoints of that port alone, in order.
Offer restrict_to(const Offer& offer, const PortChoice& choice);
// Those of all others: of what a second rail is chosen.
Offer without(const Offer& offer, const PortChoice& choice);

}  // namespace qpmesh::transport::verbs::selection
