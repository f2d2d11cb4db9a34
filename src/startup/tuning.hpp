// QPMESH_TUNING: rank 0 reads the file and hands it to everybody, who reads the same text and so
// learns the same constants, or the same error. The file need not exist for the others.
#pragma once

#include <string>

#include "collectives/constants.hpp"
#include "qpmesh/bootstrap.hpp"

namespace qpmesh::startup {

// The file, or why it cannot be read; nothing where no path is given.
Blob load_tuning(const std::string& path);
// Of what rank 0 loaded. Throws Error{bad_config} naming file, line and reason; Error{corrupt}.
collectives::Constants tuned_constants(BlobView loaded);

}  // namespace qpmesh::startup
