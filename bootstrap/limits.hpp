// What to do about a limit of this process or host that a call ran into.
#pragma once

#include <string>

namespace qpmesh::bootstrap {

// A hint for the errno of a call that makes a descriptor, with the limit; empty for other errors.
std::string hint_for_descriptors(int error);

}  // namespace qpmesh::bootstrap
