// Reductions with the vector instructions that this processor has, by Google Highway.
#pragma once

#include "collectives/kernels/reduce.hpp"

namespace qpmesh::collectives {

// The same bits as scalar_reduce_kernel's. nullptr: not written with vectors, or the processor has
// no more than the compiler uses anyway.
ReduceKernel vector_reduce_kernel(ReductionKind kind, ElementType type) noexcept;

}  // namespace qpmesh::collectives
