// SPDX-License-Identifier: MIT
// Which port each rank uses. A rank has one, so the ranks' choices depend on each other: start from
// several simple assignments, let one rank after the other improve its own until nobody can, and
// take the best. It ends: reaching is mutual, so what is better for one rank is better for all.
#include <algorithm>
#include <cassert>
#include <map>
#include <numeric>

#include "transport/verbs/selection/pairing.hpp"

namespace qpmesh::transport::verbs::selection {
namespace {

// What a choice is worth to a rank, or all of them to all: compared in this order.
struct Worth {
  std::int64_t peers = 0;
  std::int64_t peers_in_subnet = 0;
  std::int64_t score = 0;
  auto operator<=>(const Worth&) const = default;
};

// What decides whom an endpoint reaches: all but the host's own part of its address.
struct Attachment {
  LinkLayer link_layer = LinkLayer::ethernet;
  GidType gid_type = GidType::roce_v2;
  AddressKind kind = AddressKind::ipv4;
  std::uint16_t pkey = 0;
  int prefix_bits = 0;
  Gid subnet{};
  auto operator<=>(const Attachment&) const = default;
};

Attachment attachment_of(const Endpoint& endpoint) {
  return {.link_layer = endpoint.link_layer,
          .gid_type = endpoint.gid_type,
          .kind = kind_of(endpoint.gid),
          .pkey = endpoint.pkey,
          .prefix_bits = endpoint.prefix_bits,
          .subnet = prefix_of(endpoint.gid, endpoint.prefix_bits)};
}

// Ports that are attached alike reach the same others: thousands of ports are a few networks.
struct Network {
  std::vector<Attachment> attachments;  // sorted
  std::vector<Endpoint> sample;         // the endpoints of one of its ports
};

struct PortOption {
  PortChoice port{};
  std::size_t network = 0;
  int score = 0;
};

struct Cluster {
  std::vector<Network> networks;
  std::vector<Proximity> proximity;  // networks by networks
  // Of each rank, in the order of its offer. Who offers nothing has a port that reaches nobody.
  std::vector<std::vector<PortOption>> options;
};

using Assignment = std::vector<std::size_t>;  // rank to one of its options, by index

Proximity best_proximity(const Network& a, const Network& b) noexcept {
  auto best = Proximity::unreachable;
  for (const auto& mine : a.sample) {
    for (const auto& theirs : b.sample) best = std::max(best, proximity(mine, theirs));
  }
  return best;
}

std::size_t network_of(std::vector<Network>& networks, std::vector<Endpoint> endpoints) {
  std::vector<Attachment> attachments;
  attachments.reserve(endpoints.size());
  for (const auto& endpoint : endpoints) attachments.push_back(attachment_of(endpoint));
  std::ranges::sort(attachments);
  const auto known = std::ranges::find(networks, attachments, &Network::attachments);
  if (known != networks.end()) return static_cast<std::size_t>(known - networks.begin());
  networks.push_back({std::move(attachments), std::move(endpoints)});
  return networks.size() - 1;
}

Cluster survey(std::span<const Offer> offers) {
  Cluster cluster;
  for (const auto& offer : offers) {
    auto& own = cluster.options.emplace_back();
    for (const auto& endpoint : offer.endpoints) {
      const PortChoice port{endpoint.device, endpoint.port};
      if (std::ranges::find(own, port, &PortOption::port) != own.end()) continue;
      own.push_back({.port = port,
                     .network = network_of(cluster.networks, restrict_to(offer, port).endpoints),
                     .score = endpoint.score});
    }
    if (own.empty()) own.emplace_back().network = network_of(cluster.networks, {});
  }
  for (const auto& a : cluster.networks) {
    for (const auto& b : cluster.networks) cluster.proximity.push_back(best_proximity(a, b));
  }
  return cluster;
}

// How many ranks use each network: in all, and of each node, whose ranks do not count for it.
struct Users {
  Users(const Cluster& cluster, const Assignment& assignment, std::span<const int> node_ids)
      : all(cluster.networks.size()) {
    for (std::size_t rank = 0; rank < assignment.size(); ++rank) {
      of_node[node_ids[rank]].resize(all.size());
      add(node_ids[rank], cluster.options[rank][assignment[rank]].network, 1);
    }
  }
  void add(int node_id, std::size_t network, int count) {
    all[network] += count;
    of_node.at(node_id)[network] += count;
  }

  std::vector<std::int64_t> all;
  std::map<int, std::vector<std::int64_t>> of_node;
};

Worth worth_of(const PortOption& option, int node_id, const Cluster& cluster, const Users& users) {
  const auto& own = users.of_node.at(node_id);
  Worth worth{.score = option.score};
  for (std::size_t other = 0; other < cluster.networks.size(); ++other) {
    const auto count = users.all[other] - own[other];
    const auto quality = cluster.proximity[option.network * cluster.networks.size() + other];
    if (quality != Proximity::unreachable) worth.peers += count;
    if (quality == Proximity::same_subnet) worth.peers_in_subnet += count;
  }
  return worth;
}

// Returns what the improved assignment is worth.
Worth improve(Assignment& assignment, const Cluster& cluster, std::span<const int> node_ids) {
  Users users{cluster, assignment, node_ids};
  Worth total;
  for (bool changed = true; changed;) {
    changed = false;
    total = {};
    for (std::size_t rank = 0; rank < assignment.size(); ++rank) {
      const auto& options = cluster.options[rank];
      const std::size_t now = assignment[rank];
      std::size_t best = now;
      auto best_worth = worth_of(options[now], node_ids[rank], cluster, users);
      for (std::size_t i = 0; i < options.size(); ++i) {
        const auto worth = worth_of(options[i], node_ids[rank], cluster, users);
        if (worth <= best_worth) continue;
        best = i;
        best_worth = worth;
      }
      if (best != now) {
        users.add(node_ids[rank], options[now].network, -1);
        users.add(node_ids[rank], options[best].network, 1);
        assignment[rank] = best;
        changed = true;
      }
      total.peers += best_worth.peers;
      total.peers_in_subnet += best_worth.peers_in_subnet;
      total.score += best_worth.score;
    }
  }
  return total;
}

// Every rank by the port that reaches the anchor best, its first one where several do.
Assignment start(const Cluster& cluster, std::size_t anchor) {
  Assignment assignment;
  for (const auto& options : cluster.options) {
    const auto best = std::ranges::max_element(options, {}, [&](const PortOption& each) {
      return cluster.proximity[each.network * cluster.networks.size() + anchor];
    });
    assignment.push_back(static_cast<std::size_t>(best - options.begin()));
  }
  return assignment;
}

}  // namespace

std::vector<PortChoice> choose_ports(std::span<const Offer> offers, std::span<const int> node_ids) {
  assert(node_ids.empty() || node_ids.size() == offers.size());
  std::vector<int> each_its_own(offers.size());
  std::iota(each_its_own.begin(), each_its_own.end(), 0);
  if (node_ids.empty()) node_ids = each_its_own;

  const auto cluster = survey(offers);
  Assignment best(offers.size(), 0);  // every rank by its first port
  auto best_worth = improve(best, cluster, node_ids);
  constexpr std::size_t anchors_max = 16;  // a network that all share is among the first rank's
  for (std::size_t anchor = 0; anchor < std::min(cluster.networks.size(), anchors_max); ++anchor) {
    auto assignment = start(cluster, anchor);
    const auto worth = improve(assignment, cluster, node_ids);
    if (worth <= best_worth) continue;
    best = std::move(assignment);
    best_worth = worth;
  }
  std::vector<PortChoice> choices;
  for (std::size_t rank = 0; rank < best.size(); ++rank)
    choices.push_back(cluster.options[rank][best[rank]].port);
  return choices;
}

}  // namespace qpmesh::transport::verbs::selection
