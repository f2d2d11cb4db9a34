// SPDX-License-Identifier: MIT
#include "status.hpp"

#include <cstring>
#include <limits>

#include "datatype.hpp"
#include "entry.hpp"
#include "environment.hpp"
#include "error.hpp"

namespace qpmesh::mpi {
namespace {

template <class Count>
Count narrowed(MPI_Count count) noexcept {
  return count > std::numeric_limits<Count>::max() ? Count{MPI_UNDEFINED}
                                                   : static_cast<Count>(count);
}

template <class Count>
void get_count(const MPI_Status* status, MPI_Datatype type, Count* count) {
  check_addresses(status, count);
  *count =
      narrowed<Count>(count_in(static_cast<MPI_Count>(bytes_of(*status)), committed_type(type)));
}

template <class Count>
void get_elements(const MPI_Status* status, MPI_Datatype type, Count* count) {
  check_addresses(status, count);
  *count =
      narrowed<Count>(basics_in(static_cast<MPI_Count>(bytes_of(*status)), committed_type(type)));
}

void set_elements(MPI_Status* status, MPI_Datatype type, MPI_Count count) {
  check_addresses(status);
  require(count >= 0, MPI_ERR_COUNT, "a count of ", count);
  set_bytes(*status, static_cast<std::size_t>(bytes_of_basics(count, committed_type(type))));
}

int get_field(const char* function, const MPI_Status* status, int MPI_Status::*field, int* value) {
  return while_running(function, [&] {
    check_addresses(status, value);
    *value = status->*field;
  });
}
int set_field(const char* function, MPI_Status* status, int MPI_Status::*field, int value) {
  return while_running(function, [&] {
    check_addresses(status);
    status->*field = value;
  });
}

}  // namespace
}  // namespace qpmesh::mpi

using namespace qpmesh::mpi;

QPMESH_MPI_ENTRY(Test_cancelled, (const MPI_Status* status, int* flag)) {
  return while_running("MPI_Test_cancelled", [&] {
    check_addresses(status, flag);
    *flag = is_cancelled(*status);
  });
}

QPMESH_MPI_ENTRY(Status_set_cancelled, (MPI_Status * status, int flag)) {
  return while_running("MPI_Status_set_cancelled", [&] {
    check_addresses(status);
    set_cancelled(*status, flag != 0);
  });
}

QPMESH_MPI_ENTRY(Status_get_error, (const MPI_Status* status, int* error)) {
  return get_field("MPI_Status_get_error", status, &MPI_Status::MPI_ERROR, error);
}
QPMESH_MPI_ENTRY(Status_get_source, (const MPI_Status* status, int* source)) {
  return get_field("MPI_Status_get_source", status, &MPI_Status::MPI_SOURCE, source);
}
QPMESH_MPI_ENTRY(Status_get_tag, (const MPI_Status* status, int* tag)) {
  return get_field("MPI_Status_get_tag", status, &MPI_Status::MPI_TAG, tag);
}
QPMESH_MPI_ENTRY(Status_set_error, (MPI_Status * status, int error)) {
  return set_field("MPI_Status_set_error", status, &MPI_Status::MPI_ERROR, error);
}
QPMESH_MPI_ENTRY(Status_set_source, (MPI_Status * status, int source)) {
  return set_field("MPI_Status_set_source", status, &MPI_Status::MPI_SOURCE, source);
}
QPMESH_MPI_ENTRY(Status_set_tag, (MPI_Status * status, int tag)) {
  return set_field("MPI_Status_set_tag", status, &MPI_Status::MPI_TAG, tag);
}

QPMESH_MPI_ENTRY(Status_c2f, (const MPI_Status* status, MPI_Fint* fortran)) {
  return while_running("MPI_Status_c2f", [&] {
    check_addresses(status, fortran);
    std::memcpy(fortran, status, sizeof *status);
  });
}
QPMESH_MPI_ENTRY(Status_f2c, (const MPI_Fint* fortran, MPI_Status* status)) {
  return while_running("MPI_Status_f2c", [&] {
    check_addresses(fortran, status);
    std::memcpy(status, fortran, sizeof *status);
  });
}

QPMESH_MPI_ENTRY(Get_elements_x,
                 (const MPI_Status* status, MPI_Datatype datatype, MPI_Count* count)) {
  return while_running("MPI_Get_elements_x", [&] { get_elements(status, datatype, count); });
}
QPMESH_MPI_ENTRY(Status_set_elements_x,
                 (MPI_Status * status, MPI_Datatype datatype, MPI_Count count)) {
  return while_running("MPI_Status_set_elements_x", [&] { set_elements(status, datatype, count); });
}

#define QPMESH_MPI_ENTRIES "status.inc"
#include "counted_entries.inc"
