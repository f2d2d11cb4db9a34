// SPDX-License-Identifier: MIT
// From a bootstrap to a context and the communicator of all its ranks.
#pragma once

#include <memory>

#include "context/communicator_state.hpp"
#include "qpmesh/bootstrap.hpp"
#include "qpmesh/options.hpp"

namespace qpmesh::startup {

// What can be said of options without anybody else. Throws Error where one cannot be read, or does
// not go with another.
void check(const Options& options);

std::shared_ptr<context::CommunicatorState> init_over(Bootstrap& bootstrap, const Options& options);
// Of the job that the launcher's environment describes.
std::shared_ptr<context::CommunicatorState> init_from_environment(const Options& options);

}  // namespace qpmesh::startup
