#pragma once

#include "collectives/group.hpp"

namespace qpmesh::collectives {

// blocks: size() blocks of block_bytes each; block rank() is this rank's and is there already.
Task allgather_ring(Group group, std::byte* blocks, std::size_t block_bytes);

}  // namespace qpmesh::collectives
