// The network interfaces of this process's network namespace, which GIDs are named after.
#pragma once

#include <string>
#include <vector>

#include "base/system.hpp"
#include "transport/verbs/selection/facts.hpp"

namespace qpmesh::transport::verbs {

struct Interface {
  std::string name{};
  unsigned index = 0;
  bool up = false;
  std::vector<selection::InterfaceAddress> addresses{};
};

// Empty when they cannot be read.
std::vector<Interface> interfaces(const base::System& system);

}  // namespace qpmesh::transport::verbs
