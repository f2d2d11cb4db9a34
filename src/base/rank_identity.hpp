// SPDX-License-Identifier: MIT
// What is known of a rank once all ranks have met: start-up learns it, everything else reads it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "qpmesh/bootstrap.hpp"

namespace qpmesh::base {

// Where a process lives. Two processes with equal places can reach each other's abstract sockets,
// pass descriptors, and name each other by pid.
struct Place {
  std::string boot_id;  // of the running kernel: containers of one host share it
  uid_t uid = 0;        // effective
  std::uint64_t pid_namespace = 0;
  std::uint64_t net_namespace = 0;
  std::uint64_t user_namespace = 0;

  bool operator==(const Place&) const = default;
};
// Whether both have the same interfaces, loopback included.
inline bool same_network(const Place& a, const Place& b) {
  return a.boot_id == b.boot_id && a.net_namespace == b.net_namespace;
}

struct RankIdentity {
  std::string host;
  pid_t pid = 0;
  Place place;
  // Ranks of one node have equal numbers; nodes are numbered by their lowest rank, without holes.
  int node = 0;
  bool reads_neighbours = false;  // all private memory of its node, where there is somebody else
  Blob facts;                     // what that rank handed to the meeting
};

}  // namespace qpmesh::base
