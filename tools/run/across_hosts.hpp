// SPDX-License-Identifier: MIT
// A job on several hosts: the side of the qpmesh-run that the user started.
#pragma once

#include <string>
#include <vector>

#include "tools/run/hosts.hpp"
#include "tools/run/rank_process.hpp"
#include "tools/run/remote.hpp"

namespace qpmesh::run {

struct HostsPlan {
  JobPlan job;  // what is the same on every host
  std::vector<HostSlots> hosts;
  RemoteShell shell;
  std::string directory;       // where ranks start, on every host
  std::int64_t answer_ms_max;  // for a host to be there
};

// Starts the ranks when every host is there, passes on signals, input and output, and waits for
// all. How ranks end, and who is named, is as on one host (job.hpp): each host tells who failed
// first there, and of those one that a signal killed comes before others, which may have ended
// because of it. Answers 0 or the code of that rank; 255 where a host was lost. Throws RunError,
// after ending what was started: a host that cannot be reached, or that cannot start the program.
int run_across_hosts(HostsPlan plan);

}  // namespace qpmesh::run
