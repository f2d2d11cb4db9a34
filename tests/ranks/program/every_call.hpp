// SPDX-License-Identifier: MIT
// Every call that a communicator is asked to make, with arguments that are good: for tests in which
// all of them are refused alike.
#pragma once

#include <string>
#include <vector>

#include "qpmesh/qpmesh.hpp"

namespace qpmesh::ranks {

struct AnyCall {
  std::string operation;  // as its error names it
  void (*make)(Communicator& group);
  bool is_of_context = false;  // not of the communicator: possible as long as that lives
};

const std::vector<AnyCall>& every_call();

}  // namespace qpmesh::ranks
