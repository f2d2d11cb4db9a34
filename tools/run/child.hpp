// What qpmesh-run and the processes that it starts have between them.
#pragma once

#include <cstddef>

#include "base/owned.hpp"

namespace qpmesh::run {

// What can be read from a pipe now. Of a process that has ended it is the rest: whatever comes
// later is from one that it left behind, and need not end. 0 without a pipe.
std::size_t bytes_in(const base::UniqueFd& pipe) noexcept;

}  // namespace qpmesh::run
