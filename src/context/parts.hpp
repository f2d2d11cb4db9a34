// SPDX-License-Identifier: MIT
// What a context is built from.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/bytes.hpp"
#include "base/control_channel.hpp"
#include "base/log.hpp"
#include "base/owned.hpp"
#include "base/process_mark.hpp"
#include "base/rank_identity.hpp"
#include "base/system.hpp"
#include "collectives/cost.hpp"
#include "messaging/messaging.hpp"
#include "progress/wait.hpp"
#include "qpmesh/options.hpp"
#include "transport/memory.hpp"
#include "transport/neighbour.hpp"
#include "transport/on_demand.hpp"
#include "transport/transport.hpp"

namespace qpmesh::context {

// How a rank reaches another one (or itself).
struct PeerLink {
  std::unique_ptr<transport::Connection> connection;
  messaging::PeerPlaces places;  // without connection and seeds
  // Where the connection is made when it is first used. A transport owns it.
  transport::OnDemand* on_demand = nullptr;
};

// Everything a context is built from; by init from the real world, by the simulation from a
// simulated one.
struct ContextParts {
  int rank = 0;
  Options options;
  base::Log log;
  std::shared_ptr<const base::System> system;
  base::ProcessMark process{};
  std::uint64_t epoch = 0;
  std::vector<base::RankIdentity> identities;  // in rank order
  std::unique_ptr<transport::Arena> arena;
  // Peers look for it before they copy out of our private memory.
  std::unique_ptr<const std::uint64_t> private_nonce{};
  std::vector<std::unique_ptr<transport::Transport>> transports;
  std::vector<PeerLink> links;  // in rank order
  std::unique_ptr<base::ControlChannel> control;
  base::UniqueFd doorbell;  // eventfd, or none
  progress::WaitPolicy wait_policy;
  std::string state_place{};  // where a launcher reads what this rank does; empty: nowhere
  bool own_core = false;      // this node has a core for each of its ranks
  int spins_max = 0;          // of a short wait where it stands
  // Of ranks on one node; the same on every rank.
  collectives::TopologyParams near{.shares_memory = true};
  // In rank order; nullptr: not of this node. Empty: memory is not shared. The transports own them.
  std::vector<const transport::Neighbour*> neighbours{};
};

messaging::RingLayout ring_layout(const Options& options) noexcept;

// Of the communicator of everybody that init returns.
inline std::uint64_t world_id(std::uint64_t epoch) noexcept { return base::mix64(epoch); }

}  // namespace qpmesh::context
