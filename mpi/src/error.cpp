// SPDX-License-Identifier: MIT
#include "error.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "communicator.hpp"
#include "entry.hpp"
#include "environment.hpp"
#include "of_thread.hpp"
#include "qpmesh/qpmesh.h"

namespace qpmesh::mpi {
namespace {

struct Class {
  int number;
  const char* text;
};
// By number.
const Class classes[] = {
    {MPI_SUCCESS, "MPI_SUCCESS: no error"},
    {MPI_ERR_BUFFER, "MPI_ERR_BUFFER: a buffer that cannot be used"},
    {MPI_ERR_COUNT, "MPI_ERR_COUNT: a count that means nothing"},
    {MPI_ERR_TYPE, "MPI_ERR_TYPE: a datatype that cannot be used"},
    {MPI_ERR_TAG, "MPI_ERR_TAG: a tag out of range"},
    {MPI_ERR_COMM, "MPI_ERR_COMM: no communicator"},
    {MPI_ERR_RANK, "MPI_ERR_RANK: a rank that is not there"},
    {MPI_ERR_REQUEST, "MPI_ERR_REQUEST: no request"},
    {MPI_ERR_ROOT, "MPI_ERR_ROOT: a root that is not there"},
    {MPI_ERR_GROUP, "MPI_ERR_GROUP: a group that cannot be used"},
    {MPI_ERR_OP, "MPI_ERR_OP: an operation that cannot be used"},
    {MPI_ERR_TOPOLOGY, "MPI_ERR_TOPOLOGY: a topology that is not there, or of another kind"},
    {MPI_ERR_DIMS, "MPI_ERR_DIMS: dimensions that mean nothing"},
    {MPI_ERR_ARG, "MPI_ERR_ARG: an argument that means nothing"},
    {MPI_ERR_UNKNOWN, "MPI_ERR_UNKNOWN: an unknown error"},
    {MPI_ERR_TRUNCATE, "MPI_ERR_TRUNCATE: a message that is longer than its receive"},
    {MPI_ERR_OTHER, "MPI_ERR_OTHER: another error"},
    {MPI_ERR_INTERN, "MPI_ERR_INTERN: what should not happen"},
    {MPI_ERR_PENDING, "MPI_ERR_PENDING: a request that has not ended"},
    {MPI_ERR_IN_STATUS, "MPI_ERR_IN_STATUS: the errors are in the statuses"},
    {MPI_ERR_ACCESS, "MPI_ERR_ACCESS: permission denied"},
    {MPI_ERR_AMODE, "MPI_ERR_AMODE: a mode that means nothing"},
    {MPI_ERR_ASSERT, "MPI_ERR_ASSERT: an assertion that means nothing"},
    {MPI_ERR_BAD_FILE, "MPI_ERR_BAD_FILE: a file name that means nothing"},
    {MPI_ERR_BASE, "MPI_ERR_BASE: a base that cannot be used"},
    {MPI_ERR_CONVERSION, "MPI_ERR_CONVERSION: a value that the other representation does not have"},
    {MPI_ERR_DISP, "MPI_ERR_DISP: a displacement that means nothing"},
    {MPI_ERR_DUP_DATAREP, "MPI_ERR_DUP_DATAREP: a data representation that is there already"},
    {MPI_ERR_FILE_EXISTS, "MPI_ERR_FILE_EXISTS: the file exists"},
    {MPI_ERR_FILE_IN_USE, "MPI_ERR_FILE_IN_USE: the file is in use"},
    {MPI_ERR_FILE, "MPI_ERR_FILE: no file"},
    {MPI_ERR_INFO_KEY, "MPI_ERR_INFO_KEY: a key that is too long, or empty"},
    {MPI_ERR_INFO_NOKEY, "MPI_ERR_INFO_NOKEY: a key that is not there"},
    {MPI_ERR_INFO_VALUE, "MPI_ERR_INFO_VALUE: a value that is too long"},
    {MPI_ERR_INFO, "MPI_ERR_INFO: no info object"},
    {MPI_ERR_IO, "MPI_ERR_IO: reading or writing failed"},
    {MPI_ERR_KEYVAL, "MPI_ERR_KEYVAL: no key for attributes"},
    {MPI_ERR_LOCKTYPE, "MPI_ERR_LOCKTYPE: no type of locks"},
    {MPI_ERR_NAME, "MPI_ERR_NAME: a service name that was not published"},
    {MPI_ERR_NO_MEM, "MPI_ERR_NO_MEM: no memory"},
    {MPI_ERR_NOT_SAME, "MPI_ERR_NOT_SAME: ranks gave different arguments"},
    {MPI_ERR_NO_SPACE, "MPI_ERR_NO_SPACE: no space on the device"},
    {MPI_ERR_NO_SUCH_FILE, "MPI_ERR_NO_SUCH_FILE: the file does not exist"},
    {MPI_ERR_PORT, "MPI_ERR_PORT: no port"},
    {MPI_ERR_QUOTA, "MPI_ERR_QUOTA: the quota is used up"},
    {MPI_ERR_READ_ONLY, "MPI_ERR_READ_ONLY: the file can only be read"},
    {MPI_ERR_RMA_ATTACH, "MPI_ERR_RMA_ATTACH: memory that cannot be attached"},
    {MPI_ERR_RMA_CONFLICT, "MPI_ERR_RMA_CONFLICT: accesses that are in conflict"},
    {MPI_ERR_RMA_RANGE, "MPI_ERR_RMA_RANGE: memory that is not in the window"},
    {MPI_ERR_RMA_SHARED, "MPI_ERR_RMA_SHARED: memory that cannot be shared"},
    {MPI_ERR_RMA_SYNC, "MPI_ERR_RMA_SYNC: a call at the wrong time"},
    {MPI_ERR_SERVICE, "MPI_ERR_SERVICE: a service that cannot be published"},
    {MPI_ERR_SIZE, "MPI_ERR_SIZE: a size that means nothing"},
    {MPI_ERR_SPAWN, "MPI_ERR_SPAWN: processes that could not be started"},
    {MPI_ERR_UNSUPPORTED_DATAREP,
     "MPI_ERR_UNSUPPORTED_DATAREP: a data representation that is not "
     "there"},
    {MPI_ERR_UNSUPPORTED_OPERATION, "MPI_ERR_UNSUPPORTED_OPERATION: not supported"},
    {MPI_ERR_WIN, "MPI_ERR_WIN: no window"},
    {MPI_ERR_RMA_FLAVOR, "MPI_ERR_RMA_FLAVOR: a window of another kind"},
    {MPI_ERR_PROC_ABORTED, "MPI_ERR_PROC_ABORTED: a process has gone"},
    {MPI_ERR_VALUE_TOO_LARGE, "MPI_ERR_VALUE_TOO_LARGE: a value that does not fit"},
    {MPI_ERR_SESSION, "MPI_ERR_SESSION: no session"},
    {MPI_ERR_ERRHANDLER, "MPI_ERR_ERRHANDLER: no error handler"},
    {MPI_ERR_ABI, "MPI_ERR_ABI: a request for another ABI"},
    {MPI_T_ERR_CANNOT_INIT, "MPI_T_ERR_CANNOT_INIT: the interface for tools cannot begin"},
    {MPI_T_ERR_NOT_ACCESSIBLE, "MPI_T_ERR_NOT_ACCESSIBLE: it cannot be reached"},
    {MPI_T_ERR_NOT_INITIALIZED, "MPI_T_ERR_NOT_INITIALIZED: the interface for tools has not begun"},
    {MPI_T_ERR_NOT_SUPPORTED, "MPI_T_ERR_NOT_SUPPORTED: not supported"},
    {MPI_T_ERR_MEMORY, "MPI_T_ERR_MEMORY: no memory"},
    {MPI_T_ERR_INVALID, "MPI_T_ERR_INVALID: an argument that means nothing"},
    {MPI_T_ERR_INVALID_INDEX, "MPI_T_ERR_INVALID_INDEX: no such index"},
    {MPI_T_ERR_INVALID_ITEM, "MPI_T_ERR_INVALID_ITEM: no such item"},
    {MPI_T_ERR_INVALID_SESSION, "MPI_T_ERR_INVALID_SESSION: no session"},
    {MPI_T_ERR_INVALID_HANDLE, "MPI_T_ERR_INVALID_HANDLE: no handle"},
    {MPI_T_ERR_INVALID_NAME, "MPI_T_ERR_INVALID_NAME: no such name"},
    {MPI_T_ERR_OUT_OF_HANDLES, "MPI_T_ERR_OUT_OF_HANDLES: no more handles"},
    {MPI_T_ERR_OUT_OF_SESSIONS, "MPI_T_ERR_OUT_OF_SESSIONS: no more sessions"},
    {MPI_T_ERR_CVAR_SET_NOT_NOW, "MPI_T_ERR_CVAR_SET_NOT_NOW: it cannot be set now"},
    {MPI_T_ERR_CVAR_SET_NEVER, "MPI_T_ERR_CVAR_SET_NEVER: it cannot be set"},
    {MPI_T_ERR_PVAR_NO_WRITE, "MPI_T_ERR_PVAR_NO_WRITE: it cannot be written"},
    {MPI_T_ERR_PVAR_NO_STARTSTOP, "MPI_T_ERR_PVAR_NO_STARTSTOP: it cannot be started or stopped"},
    {MPI_T_ERR_PVAR_NO_ATOMIC, "MPI_T_ERR_PVAR_NO_ATOMIC: it cannot be read and reset at once"},
};

const char* class_text(int number) noexcept {
  const auto row = std::ranges::find(classes, number, &Class::number);
  return row == std::end(classes) ? nullptr : row->text;
}

// What the library says, by qpmesh_code.
constexpr int class_by_code[] = {
    MPI_SUCCESS,           // QPMESH_OK
    MPI_ERR_ARG,           // QPMESH_BAD_ARGUMENT
    MPI_ERR_OTHER,         // QPMESH_BAD_CONFIG
    MPI_ERR_NO_MEM,        // QPMESH_NO_RESOURCE
    MPI_ERR_OTHER,         // QPMESH_AUTHENTICATION
    MPI_ERR_NOT_SAME,      // QPMESH_MISMATCH
    MPI_ERR_OTHER,         // QPMESH_TIMEOUT
    MPI_ERR_PROC_ABORTED,  // QPMESH_PEER_DEAD
    MPI_ERR_OTHER,         // QPMESH_LINK_FAILED
    MPI_ERR_TRUNCATE,      // QPMESH_TRUNCATED
    MPI_ERR_PROC_ABORTED,  // QPMESH_ABORTED
    MPI_ERR_INTERN,        // QPMESH_CORRUPT
    MPI_ERR_INTERN         // QPMESH_INTERNAL
};
static_assert(std::size(class_by_code) == QPMESH_INTERNAL + 1);

// ---- what the program adds ----

struct Added {
  int error_class = 0;  // its own number where it is one
  std::string text{};
};
std::mutex added_mutex;
std::map<int, Added> added;  // by number, behind all that are predefined
int last_code = MPI_ERR_LASTCODE;

int add(int error_class) {
  const std::lock_guard lock{added_mutex};
  const int number = ++last_code;
  added[number] = {.error_class = error_class == 0 ? number : error_class};
  return number;
}

// The class of a code; 0 where there is no such code.
int class_of(int code) {
  if (class_text(code) != nullptr) return code;
  const std::lock_guard lock{added_mutex};
  const auto own = added.find(code);
  return own == added.end() ? MPI_SUCCESS : own->second.error_class;
}
bool exists(int code) { return code == MPI_SUCCESS || class_of(code) != MPI_SUCCESS; }

void remove(int number, bool is_class) {
  const std::lock_guard lock{added_mutex};
  const auto own = added.find(number);
  require(own != added.end() && (own->second.error_class == number) == is_class, MPI_ERR_ARG,
          number, is_class ? " is no class" : " is no code", " that MPI_Add_error_… made");
  require(!is_class || std::ranges::none_of(added,
                                            [&](const auto& one) {
                                              return one.first != number &&
                                                     one.second.error_class == number;
                                            }),
          MPI_ERR_ARG, "the class ", number, " still has codes");
  added.erase(own);
}

// What a code is called: of a class its own text, of what the program added the program's.
std::string name_of(int code) {
  if (const char* const text = class_text(code)) return text;
  const std::lock_guard lock{added_mutex};
  const auto own = added.find(code);
  return own == added.end() ? "" : own->second.text;
}

// ---- the last one ----

// What this thread heard of last: MPI_Error_string says more than the class then. Of what the
// program added it says what the program says.
Failure& last() { return OfThread<Failure>::get(); }

std::string text_of(int code) {
  const bool is_last = code != MPI_SUCCESS && code == last().code && class_text(code) != nullptr;
  return is_last && !last().text.empty() ? last().text : name_of(code);
}

// "MPI_Send on MPI_COMM_WORLD, rank 1 of 4: MPI_ERR_RANK: rank 7 …"; empty where there is no memory
// for it: the code says enough.
std::string described(const Communicator* where, const char* function, const Failure& failure) try {
  std::ostringstream text;
  text << function;
  if (where != nullptr) {
    const std::string name = where->name.get();
    text << " on " << (name.empty() ? "a communicator" : name) << ", rank " << where->rank << " of "
         << where->size;
  }
  const std::string name = name_of(failure.code);
  text << ": " << (failure.text.empty() ? name : name.substr(0, name.find(':')));
  if (!failure.text.empty()) text << (name.empty() ? "" : ": ") << failure.text;
  return std::move(text).str();
} catch (const std::bad_alloc&) {
  return {};
}

// ---- handlers ----

struct PredefinedHandler : Errhandler {
  PredefinedHandler(MPI_Errhandler handle, Action what) {
    predefined = handle;
    action = what;
  }
};
// What a communicator has before the program says otherwise comes first.
PredefinedHandler predefined_handlers[] = {{MPI_ERRORS_ARE_FATAL, Errhandler::Action::abort},
                                           {MPI_ERRORS_ABORT, Errhandler::Action::abort},
                                           {MPI_ERRORS_RETURN, Errhandler::Action::return_code}};

bool is_default(const Reference<Errhandler>& handler) {
  return handler.get() == &predefined_handlers[0];
}

// Of no communicator is what concerns MPI_COMM_SELF, and before MPI 4 it was MPI_COMM_WORLD: the
// handler that the program has set counts.
Communicator* responsible(Communicator* where) {
  Communicator* const self = communicator_of(MPI_COMM_SELF);
  if (where != nullptr || self == nullptr || !is_default(self->errhandler.get()))
    return where != nullptr ? where : self;
  return communicator_of(MPI_COMM_WORLD);
}

Reference<Errhandler> handler_of(const Communicator* own) {
  auto handler = own != nullptr ? own->errhandler.get() : Reference<Errhandler>{};
  return handler ? handler : default_errhandler();
}

// Runs the handler of a communicator, null before MPI_Init: returns the code where that returns.
// The text may change in the program's function, which calls MPI.
int run_handler(Communicator* own, int code, const std::string& text) {
  const Reference<Errhandler> handler = handler_of(own);  // its function may free it
  if (handler->action == Errhandler::Action::abort) {
    const char* const without_memory = class_text(code);
    abort_job(code, !text.empty() || without_memory == nullptr ? text.c_str() : without_memory);
  }
  if (handler->action == Errhandler::Action::call) {
    MPI_Comm comm = own->handle();
    const LentHandle lent{*own};  // its function may free it
    int changeable = code;
    reinterpret_cast<MPI_Comm_errhandler_function*>(handler->function)(&comm, &changeable);
  }
  return code;
}

Errhandler& given_errhandler(MPI_Errhandler handle) {
  return require_object(errhandler_of(handle), MPI_ERR_ERRHANDLER,
                        "this is no error handler, or was freed");
}

template <class Function>
int create_errhandler(const char* name, Function* function, MPI_Errhandler* result) {
  return while_running(name, [&] {
    require(function != nullptr && result != nullptr, MPI_ERR_ARG, "an argument is null");
    auto handler = make<Errhandler>();
    handler->action = Errhandler::Action::call;
    handler->function = reinterpret_cast<void (*)()>(function);
    *result = handle_for_program(std::move(handler));
  });
}

}  // namespace

// ---- what is thrown ----

int error_class_of(int qpmesh_code) noexcept {
  const auto index = static_cast<std::size_t>(qpmesh_code);
  return index < std::size(class_by_code) ? class_by_code[index] : MPI_ERR_UNKNOWN;
}

Failure failure_of(int code, const char* text) noexcept try {
  return {code, text};
} catch (const std::bad_alloc&) {
  return {code, {}};
}

Failure last_failure() noexcept {
  const qpmesh_error& error = *qpmesh_last_error();
  return failure_of(error_class_of(error.code), error.text);
}

void fail_as_told() { throw last_failure(); }

const std::string& no_text = *new std::string;  // never destroyed: calls at exit return it

const std::string& keep_text(Communicator* where, const char* function,
                             const Failure& failure) try {
  last() = {failure.code, described(where, function, failure)};
  return last().text;
} catch (const std::bad_alloc&) {
  return no_text;
}

int report(Communicator* where, const char* function, const Failure& failure) {
  if (!is_running()) where = nullptr;  // a request may still have its communicator
  return run_handler(responsible(where), failure.code, keep_text(where, function, failure));
}

int report(Communicator* where, const char* function, const std::exception_ptr& thrown) {
  Failure failure{MPI_ERR_INTERN, {}};
  try {
    std::rethrow_exception(thrown);
  } catch (Failure& own) {
    failure = std::move(own);
  } catch (const std::bad_alloc&) {
    failure.code = MPI_ERR_NO_MEM;
  } catch (const std::exception& other) {
    failure = failure_of(MPI_ERR_INTERN, other.what());
  }
  return report(where, function, failure);
}

int* last_used_code() noexcept { return &last_code; }

Errhandler* errhandler_of(MPI_Errhandler handle) noexcept {
  if (!is_predefined(handle)) return object_of<Errhandler>(handle);
  const auto own = std::ranges::find(predefined_handlers, handle, &Errhandler::predefined);
  return own == std::end(predefined_handlers) ? nullptr : &*own;
}

Reference<Errhandler> default_errhandler() noexcept {
  return Reference<Errhandler>{&predefined_handlers[0]};
}

}  // namespace qpmesh::mpi

using namespace qpmesh::mpi;

// ---- classes, codes, texts ----

QPMESH_MPI_ENTRY(Error_class, (int errorcode, int* errorclass)) {
  return guarded("MPI_Error_class", [&] {
    require(errorclass != nullptr, MPI_ERR_ARG, "errorclass is null");
    require(exists(errorcode), MPI_ERR_ARG, errorcode, " is no error code");
    *errorclass = class_of(errorcode);
  });
}
QPMESH_MPI_ENTRY(Error_string, (int errorcode, char* string, int* length)) {
  return guarded("MPI_Error_string", [&] {
    check_addresses(string, length);
    require(exists(errorcode), MPI_ERR_ARG, errorcode, " is no error code");
    const std::string text = text_of(errorcode).substr(0, MPI_MAX_ERROR_STRING - 1);
    std::memcpy(string, text.c_str(), text.size() + 1);
    *length = static_cast<int>(text.size());
  });
}
QPMESH_MPI_ENTRY(Add_error_class, (int* errorclass)) {
  return guarded("MPI_Add_error_class", [&] {
    require(errorclass != nullptr, MPI_ERR_ARG, "errorclass is null");
    *errorclass = add(0);
  });
}
QPMESH_MPI_ENTRY(Add_error_code, (int errorclass, int* errorcode)) {
  return guarded("MPI_Add_error_code", [&] {
    require(errorcode != nullptr, MPI_ERR_ARG, "errorcode is null");
    require(errorclass != MPI_SUCCESS && class_of(errorclass) == errorclass, MPI_ERR_ARG,
            errorclass, " is no error class");
    *errorcode = add(errorclass);
  });
}
QPMESH_MPI_ENTRY(Add_error_string, (int errorcode, const char* string)) {
  return guarded("MPI_Add_error_string", [&] {
    require(string != nullptr, MPI_ERR_ARG, "string is null");
    const std::lock_guard lock{added_mutex};
    const auto own = added.find(errorcode);
    require(own != added.end(), MPI_ERR_ARG, errorcode,
            " was not made by MPI_Add_error_class or MPI_Add_error_code");
    own->second.text = string;
  });
}
QPMESH_MPI_ENTRY(Remove_error_class, (int errorclass)) {
  return guarded("MPI_Remove_error_class", [&] { remove(errorclass, true); });
}
QPMESH_MPI_ENTRY(Remove_error_code, (int errorcode)) {
  return guarded("MPI_Remove_error_code", [&] { remove(errorcode, false); });
}
QPMESH_MPI_ENTRY(Remove_error_string, (int errorcode)) {
  return guarded("MPI_Remove_error_string", [&] {
    const std::lock_guard lock{added_mutex};
    const auto own = added.find(errorcode);
    require(own != added.end() && !own->second.text.empty(), MPI_ERR_ARG, errorcode,
            " has no text of MPI_Add_error_string");
    own->second.text.clear();
  });
}

// ---- handlers ----

QPMESH_MPI_ENTRY(Comm_create_errhandler,
                 (MPI_Comm_errhandler_function * function, MPI_Errhandler* errhandler)) {
  return create_errhandler("MPI_Comm_create_errhandler", function, errhandler);
}
QPMESH_MPI_ENTRY(Errhandler_free, (MPI_Errhandler * errhandler)) {
  return guarded("MPI_Errhandler_free", [&] {
    require(errhandler != nullptr, MPI_ERR_ARG, "errhandler is null");
    Errhandler& own = given_errhandler(*errhandler);
    // Those that MPI_Comm_get_errhandler gave are freed, too, predefined or not.
    if (own.predefined == MPI_ERRHANDLER_NULL) take_back(own);
    *errhandler = MPI_ERRHANDLER_NULL;
  });
}
QPMESH_MPI_ENTRY(Comm_set_errhandler, (MPI_Comm comm, MPI_Errhandler errhandler)) {
  return on_communicator("MPI_Comm_set_errhandler", comm, [&](Communicator& own) {
    own.errhandler.set(Reference{&given_errhandler(errhandler)});
  });
}
QPMESH_MPI_ENTRY(Comm_get_errhandler, (MPI_Comm comm, MPI_Errhandler* errhandler)) {
  return on_communicator("MPI_Comm_get_errhandler", comm, [&](Communicator& own) {
    require(errhandler != nullptr, MPI_ERR_ARG, "errhandler is null");
    const Reference<Errhandler> handler = handler_of(&own);
    *errhandler = handler->predefined != MPI_ERRHANDLER_NULL ? handler->handle()
                                                             : handle_for_program(handler);
  });
}
QPMESH_MPI_ENTRY(Comm_call_errhandler, (MPI_Comm comm, int errorcode)) {
  Communicator* const own = communicator_of(comm);
  if (own == nullptr)
    return guarded("MPI_Comm_call_errhandler", [&] { fail_without_communicator(comm); });
  const Failure failure{errorcode, {}};
  run_handler(own, errorcode, described(own, "MPI_Comm_call_errhandler", failure));
  return MPI_SUCCESS;
}
