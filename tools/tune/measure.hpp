// The constants of a machine, measured by the operations that they are to predict, between two
// ranks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "collectives/constants.hpp"
#include "qpmesh/options.hpp"

namespace qpmesh::tune {

struct Measured {
  collectives::Constants constants;
  std::vector<std::string_view>
      names;  // of those that were measured; the others are the built-in ones
  std::vector<std::string> remarks;  // what could not be measured, and why
  int rank = 0;
};

// Collective, from init to finish, several times. Throws Error{bad_config} unless there are two
// ranks.
Measured measure(Options options, int tries);

}  // namespace qpmesh::tune
