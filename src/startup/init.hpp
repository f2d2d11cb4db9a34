// From a bootstrap to a context and the communicator of all its ranks.
#pragma once

#include <memory>
#include <optional>
#include <string>

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

// QPMESH_TUNING: rank 0 reads the file and hands it to everybody, who reads the same text and so
// learns the same constants, or the same error. The file need not exist for the others.
//
// The file, or why it cannot be read; nothing where no path is given.
Blob load_tuning(const std::string& path);
// Of what rank 0 loaded. Throws Error{bad_config} naming file, line and reason; Error{corrupt}.
collectives::Constants tuned_constants(BlobView loaded);

}  // namespace qpmesh::startup
