// What to do about a limit of this process or host that a call ran into.
#pragma once

#include <cstdint>
#include <string>

#include "base/system.hpp"

namespace qpmesh::bootstrap {

// A hint for the errno of a call that makes a descriptor, with the limit; empty for other errors.
std::string hint_for_descriptors(int error);

// Before the arenas of so many other ranks are mapped, together of so many bytes. Throws
// Error{no_resource} naming RLIMIT_AS, what is in use and the sum.
void require_address_space(const base::System& system, int arenas, std::uint64_t bytes);

}  // namespace qpmesh::bootstrap
