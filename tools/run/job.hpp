// SPDX-License-Identifier: MIT
// The ranks of one host, from start to the code that qpmesh-run leaves with.
#pragma once

#include "tools/run/rank_process.hpp"

namespace qpmesh::run {

// Starts the ranks and waits for all of them. Answers 0, or the code of the rank that failed first.
// plan.signal_mask is filled in here: the forwarded signals stay blocked in this process. Of a job
// of several hosts the launcher is told how ranks end, and nothing is said to the user. Throws
// RunError, after ending what was started.
int run_job(JobPlan plan);

}  // namespace qpmesh::run
