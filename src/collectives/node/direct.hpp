// Direct reduce_scatter and allgather: every rank reduces its slice of the vector from all ranks in
// one pass, and takes the other slices where they were reduced. Vectors in Buffers are read and
// written where they lie. Private ones come through staging, in chunks that stay in the cache: only
// its owner touches private memory. A rank's own slice, which nobody else reads, is reduced from
// where it lies. A chunk has two steps, "staged" and "reduced"; the next chunk but one may
// overwrite its buffer, because whoever has staged the chunk between has taken all of it. Wins for
// long vectors on one node. In rank order: ordered reductions included; the same bits on every
// rank. Cost per rank: Buffers read S + (N-1)/N S and write S; staging reads 3 S - 2 S/N and writes
// 2 S; two lines per chunk. Source: NCCL's RSxLD_AGxST kernels.
#pragma once

#include "collectives/arguments.hpp"
#include "collectives/cost.hpp"
#include "collectives/node/operation.hpp"
#include "collectives/node/pieces.hpp"
#include "collectives/node/work.hpp"

namespace qpmesh::collectives {

// Allreduce, or reduce where only the root wants the result.
Task reduce_in_slices(Group group, const Arguments& arguments, bool everybody_wants);
// Until every slice is where whoever wants it reads it.
CoreWork slices_reduced(const CallShape& shape, const CostModel& model);

}  // namespace qpmesh::collectives
