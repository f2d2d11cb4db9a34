#include "status.hpp"

#include <cstring>
#include <limits>

#include "datatype.hpp"
#include "entry.hpp"
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
  *count =
      narrowed<Count>(count_in(static_cast<MPI_Count>(bytes_of(*status)), committed_type(type)));
}

template <class Count>
void get_elements(const MPI_Status* status, MPI_Datatype type, Count* count) {
  *count =
      narrowed<Count>(basics_in(static_cast<MPI_Count>(bytes_of(*status)), committed_type(type)));
}

void set_elements(MPI_Status* status, MPI_Datatype type, MPI_Count count) {
  require(count >= 0, MPI_ERR_COUNT, "a count of ", count);
  set_bytes(*status, static_cast<std::size_t>(bytes_of_basics(count, committed_type(type))));
}

}  // namespace
}  // namespace qpmesh::mpi

using namespace qpmesh::mpi;

QPMESH_MPI_ENTRY(Test_cancelled, (const MPI_Status* status, int* flag)) {
  *flag = is_cancelled(*status);
  return MPI_SUCCESS;
}

QPMESH_MPI_ENTRY(Status_set_cancelled, (MPI_Status * status, int flag)) {
  set_cancelled(*status, flag != 0);
  return MPI_SUCCESS;
}

QPMESH_MPI_ENTRY(Status_get_error, (const MPI_Status* status, int* error)) {
  *error = status->MPI_ERROR;
  return MPI_SUCCESS;
}
QPMESH_MPI_ENTRY(Status_get_source, (const MPI_Status* status, int* source)) {
  *source = status->MPI_SOURCE;
  return MPI_SUCCESS;
}
QPMESH_MPI_ENTRY(Status_get_tag, (const MPI_Status* status, int* tag)) {
  *tag = status->MPI_TAG;
  return MPI_SUCCESS;
}
QPMESH_MPI_ENTRY(Status_set_error, (MPI_Status * status, int error)) {
  status->MPI_ERROR = error;
  return MPI_SUCCESS;
}
QPMESH_MPI_ENTRY(Status_set_source, (MPI_Status * status, int source)) {
  status->MPI_SOURCE = source;
  return MPI_SUCCESS;
}
QPMESH_MPI_ENTRY(Status_set_tag, (MPI_Status * status, int tag)) {
  status->MPI_TAG = tag;
  return MPI_SUCCESS;
}

QPMESH_MPI_ENTRY(Status_c2f, (const MPI_Status* status, MPI_Fint* fortran)) {
  std::memcpy(fortran, status, sizeof *status);
  return MPI_SUCCESS;
}
QPMESH_MPI_ENTRY(Status_f2c, (const MPI_Fint* fortran, MPI_Status* status)) {
  std::memcpy(status, fortran, sizeof *status);
  return MPI_SUCCESS;
}

QPMESH_MPI_ENTRY(Get_elements_x,
                 (const MPI_Status* status, MPI_Datatype datatype, MPI_Count* count)) {
  return guarded("MPI_Get_elements_x", [&] { get_elements(status, datatype, count); });
}
QPMESH_MPI_ENTRY(Status_set_elements_x,
                 (MPI_Status * status, MPI_Datatype datatype, MPI_Count count)) {
  return guarded("MPI_Status_set_elements_x", [&] { set_elements(status, datatype, count); });
}

#define QPMESH_MPI_ENTRIES "status.inc"
#include "counted_entries.inc"
