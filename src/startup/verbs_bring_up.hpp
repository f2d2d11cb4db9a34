// Links between ranks that do not use shared memory with each other: who needs one, agreement on
// devices and GIDs, queue pairs, rings in registered memory.
#pragma once

#include <memory>
#include <vector>

#include "context/context.hpp"
#include "qpmesh/bootstrap.hpp"
#include "qpmesh/options.hpp"

namespace qpmesh::startup {

// By shared memory or over the network, for every pair alike on all ranks.
class Reach {
 public:
  // Throws Error{no_resource}, on all ranks alike, where two ranks can be joined by nothing that
  // the options allow.
  Reach(const Options& options, const std::vector<base::RankIdentity>& ranks);

  bool by_network(int a, int b) const noexcept;
  bool uses_network_on_node() const noexcept { return verbs_on_node_; }
  bool any_by_network() const noexcept;
  // Every pair that uses the network could use shared memory instead.
  bool may_fall_back() const noexcept { return fallback_allowed_ && is_one_node(); }
  void fall_back() noexcept { verbs_on_node_ = false; }

 private:
  bool is_one_node() const noexcept;

  std::vector<int> nodes_;  // by rank
  bool verbs_on_node_ = false;
  bool fallback_allowed_ = false;
};

struct NetworkLinks {
  std::unique_ptr<transport::Transport> transport;  // empty: no rank needs one
  // By rank, where one needs it; without connection where a pair does not use the network.
  std::vector<context::PeerLink> links;
  bool busy_neighbour = false;  // the device's work is done by this host's processors
};

// Collective: every rank calls it, also one that has no such peer. May fall back (see
// Options::transport), which reach then says. Throws the same Error on all ranks.
NetworkLinks link_network(Bootstrap& bootstrap, Reach& reach, const context::ContextParts& parts,
                          Deadline deadline);

}  // namespace qpmesh::startup
