// What functions that are not there return.
#pragma once

namespace qpmesh::mpi {

int report_unsupported(const char* function);
extern const int unsupported_operation;
extern const int tools_cannot_init;
extern const int tools_not_initialized;

}  // namespace qpmesh::mpi
