// From a bootstrap to a communicator of all its ranks.
#pragma once

#include <optional>

#include "collectives/constants.hpp"
#include "qpmesh/bootstrap.hpp"
#include "qpmesh/communicator.hpp"
#include "qpmesh/options.hpp"

namespace qpmesh::detail {

// inherited: the constants of the context that this one is made from, on every rank. Otherwise rank 0's tuning file says them.
Communicator init_over(Bootstrap& bootstrap, const Options& options,
                       const std::optional<collectives::Constants>& inherited);

}  // namespace qpmesh::detail
