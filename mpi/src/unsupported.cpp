// SPDX-License-Identifier: MIT
// Functions of the standard that are not there, MISSING in mpi_functions.h: they exist, so that
// programs link and start, and each is an error with its name, whoever calls it.
#include <atomic>
#include <cstdio>
#include <string>
#include <string_view>

#include "communicator.hpp"
#include "entry.hpp"
#include "error.hpp"

namespace qpmesh::mpi {
namespace {

// Whose error it is: of the communicator that the function was given, and where it was given
// MPI_ERRORS_RETURN for itself, of nobody. Given a handler that does anything else it is of
// MPI_COMM_SELF.
struct Concerned {
  Communicator* communicator = nullptr;
  bool returns = false;

  void add(MPI_Comm given) noexcept {
    if (communicator == nullptr) communicator = communicator_of(given);
  }
  void add(MPI_Errhandler given) noexcept {
    const Errhandler* const handler = errhandler_of(given);
    returns = handler != nullptr && handler->action == Errhandler::Action::return_code;
  }
  template <class Given>
  void add(const Given&) noexcept {}
};

// Of communicators, sessions and windows: the error handler is that of the communicator, or of
// MPI_COMM_SELF. Of files it returns unless a program sets another one, and the interface for tools
// has none: those are told once, for many programs look at no code of theirs.
int report_unsupported(std::string_view function, const Concerned& concerned,
                       std::atomic_flag& told) {
  Failure failure =
      failure_of(MPI_ERR_UNSUPPORTED_OPERATION, "qpmesh does not have it (docs/mpi.md)");
  const bool is_of_tools = function.starts_with("MPI_T_");
  const bool is_of_files =
      function.starts_with("MPI_File_") || function.starts_with("MPI_Register_datarep");
  // MPI_Win_set_errhandler is given a handler for later.
  if (concerned.returns && !function.ends_with("_errhandler"))
    return keep_text(nullptr, function.data(), failure), failure.code;
  if (!is_of_tools && !is_of_files) return report(concerned.communicator, function.data(), failure);
  if (is_of_tools) {
    failure.code =
        function == "MPI_T_init_thread" ? MPI_T_ERR_CANNOT_INIT : MPI_T_ERR_NOT_INITIALIZED;
  }
  const std::string& text = keep_text(nullptr, function.data(), failure);
  if (!told.test_and_set())
    std::fprintf(stderr, "qpmesh: %s\n", text.empty() ? function.data() : text.c_str());
  return failure.code;
}

// A handle that a function would have set is that of nothing.
template <class Handle>
void set_null_at(Handle* target, Handle null) noexcept {
  if (target != nullptr) *target = null;
}
void set_null(MPI_Comm* target) noexcept { set_null_at(target, MPI_COMM_NULL); }
void set_null(MPI_Group* target) noexcept { set_null_at(target, MPI_GROUP_NULL); }
void set_null(MPI_Win* target) noexcept { set_null_at(target, MPI_WIN_NULL); }
void set_null(MPI_File* target) noexcept { set_null_at(target, MPI_FILE_NULL); }
void set_null(MPI_Session* target) noexcept { set_null_at(target, MPI_SESSION_NULL); }
void set_null(MPI_Info* target) noexcept { set_null_at(target, MPI_INFO_NULL); }
void set_null(MPI_Errhandler* target) noexcept { set_null_at(target, MPI_ERRHANDLER_NULL); }
void set_null(MPI_Request* target) noexcept { set_null_at(target, MPI_REQUEST_NULL); }
void set_null(MPI_Datatype* target) noexcept { set_null_at(target, MPI_DATATYPE_NULL); }
void set_null(MPI_T_enum* target) noexcept { set_null_at(target, MPI_T_ENUM_NULL); }
void set_null(MPI_T_cvar_handle* target) noexcept { set_null_at(target, MPI_T_CVAR_HANDLE_NULL); }
void set_null(MPI_T_pvar_handle* target) noexcept { set_null_at(target, MPI_T_PVAR_HANDLE_NULL); }
void set_null(MPI_T_pvar_session* target) noexcept { set_null_at(target, MPI_T_PVAR_SESSION_NULL); }
void set_null(MPI_T_event_registration* target) noexcept {
  set_null_at(target, MPI_T_event_registration{});
}
// A handle that the function was given, or none of that name.
template <class Given>
void set_null(const Given&) noexcept {}

// What parameters that are handles to be set are called in the lists. A function has some of them,
// which hide these.
constexpr struct {
} newcomm, newintercomm, newintracomm, intercomm, newgroup, group, win, file, session, info,
    errhandler, request, etype, filetype, datatype, enumtype, handle, registration;
// The same of those that say whose error it is.
constexpr struct {
} comm, local_comm;

}  // namespace
}  // namespace qpmesh::mpi

using namespace qpmesh::mpi;

#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define QPMESH_MPI_MISSING(name, text, arguments)                                                 \
  QPMESH_MPI_ENTRY(name, arguments) {                                                             \
    const auto set_all_null = [](const auto&... handles) { (set_null(handles), ...); };           \
    set_all_null(newcomm, newintercomm, newintracomm, intercomm, newgroup, group, win, file,      \
                 session, info, errhandler, request, etype, filetype, datatype, enumtype, handle, \
                 registration);                                                                   \
    Concerned concerned;                                                                          \
    const auto add_all = [&](const auto&... given) { (concerned.add(given), ...); };              \
    add_all(comm, local_comm, intercomm, errhandler);                                             \
    static std::atomic_flag told;                                                                 \
    return report_unsupported(text, concerned, told);                                             \
  }

#define MPI_ABI_FUNCTION(result, name, arguments)
#define MPI_ABI_MISSING(name, arguments) QPMESH_MPI_MISSING(name, "MPI_" #name, arguments)
#include "mpi_functions.h"

#define MPI_ABI_COUNTED(name, arguments)
#define MPI_ABI_COUNTED_MISSING(name, arguments) QPMESH_MPI_MISSING(name, "MPI_" #name, arguments)
#define MPI_ABI_COUNT int
#define MPI_ABI_DISPLACEMENT int
#define MPI_ABI_ADDRESS MPI_Aint
#include "mpi_counted_functions.h"
#undef MPI_ABI_COUNTED_MISSING
#undef MPI_ABI_COUNT
#undef MPI_ABI_DISPLACEMENT
#undef MPI_ABI_ADDRESS
#define MPI_ABI_COUNTED_MISSING(name, arguments) \
  QPMESH_MPI_MISSING(name##_c, "MPI_" #name "_c", arguments)
#define MPI_ABI_COUNT MPI_Count
#define MPI_ABI_DISPLACEMENT MPI_Aint
#define MPI_ABI_ADDRESS MPI_Count
#include "mpi_counted_functions.h"
