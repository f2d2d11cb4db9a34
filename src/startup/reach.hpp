// SPDX-License-Identifier: MIT
// By what each pair of ranks is joined: a function of options, nodes and what verbs found, the same
// on every rank.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/rank_identity.hpp"
#include "context/parts.hpp"
#include "qpmesh/options.hpp"

namespace qpmesh::startup {

enum class Way : std::uint8_t { shm, verbs, tcp };

class Reach {
 public:
  // Throws Error{no_resource}, on all ranks alike, where two ranks can be joined by nothing that
  // the options allow. ranks outlive it.
  Reach(const Options& options, const std::vector<base::RankIdentity>& ranks);

  Way way(int a, int b) const noexcept;
  bool by_network(int a, int b) const noexcept { return way(a, b) != Way::shm; }
  bool uses_network_on_node() const noexcept { return network_on_node_; }
  // Some pair goes this way, or could until verbs has looked.
  bool any(Way way) const noexcept;

  // Where verbs cannot join two ranks, or none at all, something else may.
  bool pairs_may_fall_back() const noexcept { return network_ == Way::verbs && after_verbs_tcp_; }
  bool may_fall_back() const noexcept;
  void pair_falls_back(int a, int b, const std::string& why);
  void fall_back(const std::string& why);

  // Which way serves how many peers of the rank, and why no better one does.
  std::string describe(int rank) const;

 private:
  bool same_node(int a, int b) const noexcept;
  bool is_one_node() const noexcept;

  const std::vector<base::RankIdentity>& ranks_;
  Way network_ = Way::tcp;        // of pairs that use the network, but for those without verbs
  bool network_on_node_ = false;  // between ranks of one node, too
  bool after_verbs_tcp_ = false;
  bool after_verbs_shm_ = false;
  std::set<std::pair<int, int>> without_verbs_;  // pairs, the lower rank first
  std::string why_no_verbs_;                     // of the first pair, or of all
};

// Why two ranks of one host share no memory: " (one host, but they differ: users 0 and 1000)";
// empty for two hosts.
std::string apart(const base::Place& a, const base::Place& b);

// The links over one network transport.
struct NetworkLinks {
  std::unique_ptr<transport::Transport> transport;  // empty: no rank needs one
  // By rank, where one needs it; without connection where a pair does not go this way.
  std::vector<context::PeerLink> links;
  bool busy_neighbour =
      false;  // the transport's work is done by a device on this host's processors
};

}  // namespace qpmesh::startup
