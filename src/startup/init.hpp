// From a bootstrap to a context and the communicator of all its ranks.
#pragma once

#include <memory>
#include <optional>

#include "collectives/constants.hpp"
#include "context/communicator_state.hpp"
#include "qpmesh/bootstrap.hpp"
#include "qpmesh/options.hpp"

namespace qpmesh::startup {

// inherited: the constants of the context that this one is made from, on every rank. Otherwise rank
// 0's tuning file says them.
std::shared_ptr<context::CommunicatorState> init_over(
    Bootstrap& bootstrap, const Options& options,
    const std::optional<collectives::Constants>& inherited);
// Of the job that the launcher's environment describes.
std::shared_ptr<context::CommunicatorState> init_from_environment(const Options& options);

}  // namespace qpmesh::startup
