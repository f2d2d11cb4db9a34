// SPDX-License-Identifier: MIT
// Errors: from what the library said, or from an argument that means nothing, to the error handler
// of a communicator.
#pragma once

#include <exception>
#include <sstream>
#include <string>

#include "counted.hpp"
#include "mpi.h"
#include "qpmesh/qpmesh.h"

namespace qpmesh::mpi {

struct Communicator;

// ---- inside a call: what went wrong is thrown ----

struct Failure {
  int code;          // an MPI_ERR_ class, or a code of the program's own
  std::string text;  // what was found, and what to do about it
};

// Without its text where there is no memory for it: the code says enough.
Failure failure_of(int code, const char* text) noexcept;

// fail(MPI_ERR_RANK, "rank ", rank, " of ", size, " ranks")
template <class... Parts>
[[noreturn]] void fail(int code, const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  throw Failure{code, std::move(text).str()};
}
template <class... Parts>
void require(bool holds, int code, const Parts&... parts) {
  if (!holds) fail(code, parts...);
}

// What the call stores to, or reads a list from, must be there.
template <class... Targets>
void check_addresses(const Targets*... addresses) {
  require((... && (addresses != nullptr)), MPI_ERR_ARG, "an address that the call needs is null");
}

// The object of a handle that must not be null: require(datatype_of(type), MPI_ERR_TYPE, …).
template <class T, class... Parts>
T& require_object(T* object, int code, const Parts&... parts) {
  if (object == nullptr) fail(code, parts...);
  return *object;
}

// What a call of qpmesh returned: fails with the thread's last error of the library.
[[noreturn]] void fail_as_told();
inline void check(int qpmesh_result) {
  if (qpmesh_result != QPMESH_OK) [[unlikely]]
    fail_as_told();
}
// The failure of that error.
Failure last_failure() noexcept;
// The class of a qpmesh_code.
int error_class_of(int qpmesh_code) noexcept;

// ---- at its end: the handler hears of it ----

// MPI_Error_string gives this text from now on, in this thread. Empty where there is no memory for
// it.
const std::string& keep_text(Communicator* where, const char* function, const Failure& failure);

// Runs the error handler of the communicator; where there is none, that of MPI_COMM_SELF, or of
// MPI_COMM_WORLD as long as only that was set. Where MPI is not running an error is of no
// communicator. Returns the code where the handler returns.
int report(Communicator* where, const char* function, const Failure& failure);

// The same of what a call threw.
int report(Communicator* where, const char* function, const std::exception_ptr& thrown);

// A call of MPI: what it throws is reported.
template <class Body>
int guarded(const char* function, Communicator* where, Body&& body) {
  std::exception_ptr thrown;  // a call that goes well pays for no more than this
  try {
    std::forward<Body>(body)();
    return MPI_SUCCESS;
  } catch (const Failure&) {
    thrown = std::current_exception();
  } catch (const std::exception&) {
    thrown = std::current_exception();
  }
  return report(where, function, thrown);  // outside of the handler: it may call MPI, or throw
}
template <class Body>
int guarded(const char* function, Body&& body) {
  return guarded(function, nullptr, std::forward<Body>(body));
}

// Where the highest code lies that there is, for the program to read: MPI_LASTUSEDCODE.
int* last_used_code() noexcept;

// ---- error handlers ----

struct Errhandler : Handled<Errhandler> {
  enum class Action { abort, return_code, call };
  Action action = Action::abort;
  void (*function)() = nullptr;                     // the program's, of the type that its call has
  MPI_Errhandler predefined = MPI_ERRHANDLER_NULL;  // its handle where that is a number

  MPI_Errhandler handle() noexcept {
    return predefined != MPI_ERRHANDLER_NULL ? predefined : reinterpret_cast<MPI_Errhandler>(this);
  }
};
// Null where the handle is, or was freed.
Errhandler* errhandler_of(MPI_Errhandler handle) noexcept;
// MPI_ERRORS_ARE_FATAL: what a communicator without a parent has.
Reference<Errhandler> default_errhandler() noexcept;

}  // namespace qpmesh::mpi
