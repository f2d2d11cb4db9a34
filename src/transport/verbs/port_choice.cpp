// Which port each rank uses. A rank has one, so the ranks' choices depend on each other: start from several
// simple assignments, let one rank after the other improve its own until nobody can, and take the best. Because
// reaching is mutual, what is better for one rank is better for the whole: it ends.
#include <algorithm>
#include <cassert>
#include <map>
#include <numeric>

#include "transport/verbs/pairing.hpp"

namespace qpmesh::transport::verbs {
namespace {

// What a choice is worth to a rank, or all of them to all: compared in this order.
struct Worth {
  std::int64_t peers = 0;
  std::int64_t peers_in_subnet = 0;
  std::int64_t score = 0;
  auto operator<=>(const Worth&) const = default;
};

// Ranks of one host offer the same ports: the work is done once for each different one.
struct Port {
  PortChoice name;
  std::vector<Endpoint> endpoints;
};

struct Ports {
  std::vector<Port> all;
  std::vector<Reach> reach;                          // all by all
  std::vector<std::vector<std::size_t>> candidates;  // of each rank, in the order of its offer
};

using Assignment = std::vector<std::size_t>;  // rank to port; all.size() where it has none

Reach best_reach(const Port& a, const Port& b) noexcept {
  auto best = Reach::none;
  for (const auto& mine : a.endpoints) {
    for (const auto& theirs : b.endpoints) best = std::max(best, reach(mine, theirs));
  }
  return best;
}

std::size_t index_of(std::vector<Port>& all, const Offer& offer, const PortChoice& name) {
  auto endpoints = restrict_to(offer, name).endpoints;
  const auto known = std::ranges::find(all, endpoints, &Port::endpoints);
  if (known != all.end()) return static_cast<std::size_t>(known - all.begin());
  all.push_back({name, std::move(endpoints)});
  return all.size() - 1;
}

Ports collect(std::span<const Offer> offers) {
  Ports ports;
  for (const auto& offer : offers) {
    auto& own = ports.candidates.emplace_back();
    for (const auto& endpoint : offer.endpoints) {
      const auto port = index_of(ports.all, offer, {endpoint.device, endpoint.port});
      if (std::ranges::find(own, port) == own.end()) own.push_back(port);
    }
  }
  for (const auto& a : ports.all) {
    for (const auto& b : ports.all) ports.reach.push_back(best_reach(a, b));
  }
  return ports;
}

// How many ranks use each port: all of them, and those of each island, who do not count for one another.
struct Users {
  Users(const Ports& ports, const Assignment& assignment, std::span<const int> islands)
      : all(ports.all.size() + 1) {
    for (std::size_t rank = 0; rank < assignment.size(); ++rank) {
      auto& own = of_island[islands[rank]];
      own.resize(all.size());
      ++own[assignment[rank]];
      ++all[assignment[rank]];
    }
  }
  void move(int island, std::size_t from, std::size_t to) {
    --all[from];
    --of_island[island][from];
    ++all[to];
    ++of_island[island][to];
  }

  std::vector<std::int64_t> all;
  std::map<int, std::vector<std::int64_t>> of_island;
};

Worth worth_of(std::size_t port, int island, const Ports& ports, const Users& users) {
  const auto& own = users.of_island.at(island);
  Worth worth{.score = ports.all[port].endpoints.front().score};
  for (std::size_t other = 0; other < ports.all.size(); ++other) {
    const auto count = users.all[other] - own[other];
    const auto quality = ports.reach[port * ports.all.size() + other];
    if (quality != Reach::none) worth.peers += count;
    if (quality == Reach::same_subnet) worth.peers_in_subnet += count;
  }
  return worth;
}

// Returns what the improved assignment is worth.
Worth improve(Assignment& assignment, const Ports& ports, std::span<const int> islands) {
  Users users{ports, assignment, islands};
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t rank = 0; rank < assignment.size(); ++rank) {
      auto& chosen = assignment[rank];
      for (const auto candidate : ports.candidates[rank]) {
        if (worth_of(candidate, islands[rank], ports, users) <= worth_of(chosen, islands[rank], ports, users))
          continue;
        users.move(islands[rank], chosen, candidate);
        chosen = candidate;
        changed = true;
      }
    }
  }
  Worth total;
  for (std::size_t rank = 0; rank < assignment.size(); ++rank) {
    if (ports.candidates[rank].empty()) continue;
    const auto worth = worth_of(assignment[rank], islands[rank], ports, users);
    total.peers += worth.peers;
    total.peers_in_subnet += worth.peers_in_subnet;
    total.score += worth.score;
  }
  return total;
}

// Every rank by the port that reaches the anchor best; without an anchor by its own best one.
Assignment start(const Ports& ports, std::size_t anchor) {
  Assignment assignment;
  for (const auto& candidates : ports.candidates) {
    const auto quality = [&](std::size_t port) {
      return anchor == ports.all.size() ? Reach::none : ports.reach[port * ports.all.size() + anchor];
    };
    const auto best = std::ranges::max_element(candidates, {}, quality);  // the first of several
    assignment.push_back(best == candidates.end() ? ports.all.size() : *best);
  }
  return assignment;
}

}  // namespace

std::vector<PortChoice> choose_ports(std::span<const Offer> offers, std::span<const int> islands) {
  assert(islands.empty() || islands.size() == offers.size());
  std::vector<int> each_its_own(offers.size());
  std::iota(each_its_own.begin(), each_its_own.end(), 0);
  if (islands.empty()) islands = each_its_own;

  const auto ports = collect(offers);
  auto best = start(ports, ports.all.size());
  auto best_worth = improve(best, ports, islands);
  constexpr std::size_t anchors_max = 16;  // bounds the work; networks that many ranks share show early
  for (std::size_t anchor = 0; anchor < std::min(ports.all.size(), anchors_max); ++anchor) {
    auto assignment = start(ports, anchor);
    const auto worth = improve(assignment, ports, islands);
    if (worth <= best_worth) continue;
    best = std::move(assignment);
    best_worth = worth;
  }
  std::vector<PortChoice> choices;
  for (const auto port : best)
    choices.push_back(port == ports.all.size() ? PortChoice{} : ports.all[port].name);
  return choices;
}

}  // namespace qpmesh::transport::verbs
