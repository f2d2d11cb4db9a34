// What is known of a rank once all ranks have met: start-up learns it, everything else reads it.
#pragma once

#include <sys/types.h>

#include <string>

#include "qpmesh/bootstrap.hpp"

namespace qpmesh::base {

struct RankIdentity {
  std::string host;
  pid_t pid = 0;
  // Ranks of one node have equal numbers; nodes are numbered by their lowest rank, without holes.
  int node = 0;
  bool reads_neighbours = false;  // all private memory of its node, where there is somebody else
  Blob facts;                     // what that rank handed to the meeting
};

}  // namespace qpmesh::base
