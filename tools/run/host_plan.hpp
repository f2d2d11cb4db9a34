// SPDX-License-Identifier: MIT
// What the launcher tells a host to start.
#pragma once

#include <string>
#include <vector>

#include "tools/run/rank_process.hpp"
#include "tools/run/wire.hpp"

namespace qpmesh::run {

struct HostPlan {
  JobPlan job;                           // but for its root, which is known when all hosts are here
  std::string directory;                 // where ranks start
  std::vector<std::string> environment;  // NAME=value, over what the host has
  std::string ports;                     // QPMESH_PORTS: where the ranks may meet
};

// The environment that goes to other hosts: ours, without what another launcher says of ranks and
// without what belongs to a host or to a login there, as HOME.
std::vector<std::string> environment_for_hosts(const char* const* environment);

Blob encode(const HostPlan& plan);
HostPlan decode_plan(BlobView blob);  // throws RunError
Blob encode(const HostHere& here);
HostHere decode_here(BlobView blob);  // throws RunError
std::string text_of(BlobView blob);

}  // namespace qpmesh::run
