// SPDX-License-Identifier: MIT
// Operations: what reductions do with elements, as MPI says it and as qpmesh takes it.
#pragma once

#include "counted.hpp"
#include "datatype.hpp"
#include "mpi.h"
#include "qpmesh/qpmesh.h"

namespace qpmesh::mpi {

struct Operation : Handled<Operation> {
  MPI_Op predefined = MPI_OP_NULL;        // its handle where that is a number
  MPI_User_function* function = nullptr;  // the program's: one of these two
  MPI_User_function_c* large_function = nullptr;
  bool commutative = true;

  bool is_own() const noexcept { return predefined == MPI_OP_NULL; }
  MPI_Op handle() noexcept { return is_own() ? reinterpret_cast<MPI_Op>(this) : predefined; }
};
// Null for MPI_OP_NULL, for numbers that are no operation, and for what was freed.
Operation* operation_of(MPI_Op handle) noexcept;

// An operation on a type, for a call of qpmesh. It stays where it is while the call, or its
// request, lasts, and keeps operation and type until then.
struct Reduction {
  // Failure{MPI_ERR_OP} where the operation is not for this type.
  Reduction(MPI_Op operation, MPI_Datatype datatype);
  Reduction(const Reduction&) = delete;
  Reduction& operator=(const Reduction&) = delete;

  // Elements of the program's buffers have gaps between them: qpmesh gets them packed, as type.
  // Otherwise the buffers are as they shall be, from first_byte() on.
  bool packed = false;
  qpmesh_type type = QPMESH_BYTE;
  qpmesh_reduction reduction = QPMESH_USER;
  qpmesh_function function = nullptr;  // of QPMESH_USER; its context is this
  Reference<Operation> operation{};
  Reference<Datatype> datatype{};

  void add_to(qpmesh_call& call) noexcept {
    call.function = function;
    call.context = this;
    call.commutative = operation->commutative ? 1 : 0;
  }
};

}  // namespace qpmesh::mpi
