// SPDX-License-Identifier: MIT
// Reductions of types that qpmesh has none for.
#pragma once

#include "datatype.hpp"
#include "mpi.h"
#include "qpmesh/qpmesh.h"

namespace qpmesh::mpi {

// Null where there is none. Of MPI_SUM and its like on a value's type.
qpmesh_function function_on(const Basic& basic, MPI_Op operation) noexcept;
// Of MPI_MINLOC and MPI_MAXLOC on the predefined type of a value and its index.
qpmesh_function function_on_pairs(MPI_Datatype type, MPI_Op operation) noexcept;

}  // namespace qpmesh::mpi
