// SPDX-License-Identifier: MIT
// A whole job in one process and in virtual time: every rank a context of the library, over one
// simulated network.
//
// Blocking calls of the public face would wait in real time: scripts use the _async ones and
// co_await until(request).
#pragma once

#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "context/context.hpp"
#include "qpmesh/communicator.hpp"
#include "simulator/neighbour.hpp"
#include "simulator/network.hpp"
#include "support/script.hpp"

namespace qpmesh::test {

using simulator::NetworkConfig;

// Rings as small as they may be, so that they wrap and fill all the time. Rendezvous read where the
// network's configuration says so.
Options small_rings();

class SimulatedJob {
 public:
  explicit SimulatedJob(const NetworkConfig& config, const Options& options = small_rings());
  ~SimulatedJob();  // closes; further communicators must be gone by then
  SimulatedJob(const SimulatedJob&) = delete;
  SimulatedJob& operator=(const SimulatedJob&) = delete;

  int size() const noexcept { return network_.rank_count(); }
  simulator::Network& network() noexcept { return network_; }
  context::Context& context(int rank) { return *rank_at(rank).context; }
  Communicator& world(int rank) { return *rank_at(rank).world; }
  // This rank's end of a further communicator, as split would make it. Members are ranks of the
  // world, in order.
  Communicator communicator(int rank, std::uint64_t id, const std::vector<int>& members);
  // In the rank's arena, so that peers may load it and write it; nullptr when that is full.
  std::byte* arena_memory(int rank, std::size_t bytes);
  // Where `from` writes its records for `to`.
  std::byte* slot(int to, int from);

  void start(int rank, Script script);
  // True when the time has come; the rank is stepped then.
  Condition until_after(int rank, std::int64_t duration_ns);

  // Until every script of a living rank has ended. Empty: all ended well; otherwise what went wrong
  // first.
  std::string run(std::int64_t timeout_ms = 20'000);

  // Ends what is still in flight, and the scripts; what run() would return, with what this found.
  // Communicators can go afterwards.
  std::string close();

  messaging::Counters counters();  // of all ranks together

 private:
  struct Rank {
    std::shared_ptr<context::Context> context;
    std::unique_ptr<Communicator> world;
    std::vector<Script> scripts;
    std::uint64_t slab_offset = 0;
    int running = 0;  // of the scripts
  };

  void share_memory(std::vector<context::ContextParts>& parts);
  // Of all rails.
  std::unique_ptr<transport::Transport> make_transport(int rank, const base::Log& log,
                                                       std::vector<simulator::Transport*>& rails);
  const std::vector<context::NodeSlabs>& node_slabs(std::uint64_t id,
                                                    const std::vector<int>& members);
  Rank& rank_at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  bool step(Rank& rank);
  bool all_ended() const;

  simulator::Network network_;                   // outlives the contexts
  std::deque<simulator::Neighbour> neighbours_;  // so do they
  Options options_;
  std::vector<Rank> ranks_;
  std::map<std::uint64_t, std::vector<context::NodeSlabs>> node_slabs_;  // by communicator
  std::string wrong_;
  bool closed_ = false;
};

// A script that throws ends its rank's operations first: their requests would otherwise wait for
// them in real time. Declared behind the requests that may still be in flight then.
class EndsOperations {
 public:
  EndsOperations(SimulatedJob& job, int rank) noexcept : context_{job.context(rank)} {}
  ~EndsOperations();
  EndsOperations(const EndsOperations&) = delete;
  EndsOperations& operator=(const EndsOperations&) = delete;

 private:
  context::Context& context_;
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace qpmesh::test
