// SPDX-License-Identifier: MIT
// What qpmesh-info tells, as plain data: collected from this machine, or made up by a test.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "topology/cores.hpp"
#include "transport/verbs/selection/choice.hpp"

namespace qpmesh::info {

// RDMA needs its memory locked.
struct LockedMemory {
  std::int64_t limit_bytes = -1;  // RLIMIT_MEMLOCK; -1: none
  bool exempt = false;            // CAP_IPC_LOCK: the limit does not count for this process
  std::int64_t peer_bytes = 0;    // registered for each peer between nodes, by the options
  std::int64_t needed_bytes() const noexcept { return peer_bytes * example_peers; }
  bool enough() const noexcept {
    return exempt || limit_bytes < 0 || limit_bytes >= needed_bytes();
  }

  static constexpr int example_peers = 64;
};

struct TransportFacts {
  std::string name{};
  bool usable = false;
  std::string reason{};
};

struct Facts {
  std::string host{};
  topology::UsableCores cores{};
  std::vector<topology::NumaNode> numa_nodes{};
  LockedMemory locked_memory{};
  bool has_verbs = true;  // this build knows RDMA at all
  std::vector<transport::verbs::selection::DeviceFacts> devices{};
  transport::verbs::selection::Wishes wishes{};
};

// What can be used on this host, by what the facts say.
std::vector<TransportFacts> transports(const Facts& facts);

// Of this machine and process, with the wishes of its environment. Throws Error{bad_config}.
Facts collect();

// For people: lines that fit a wide terminal.
std::string to_text(const Facts& facts);
// For programs: one JSON object, indented. Byte counts and rates are numbers; what is unknown is
// null.
std::string to_json(const Facts& facts);

}  // namespace qpmesh::info
