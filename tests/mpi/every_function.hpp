// SPDX-License-Identifier: MIT
// For tests that call every function of mpi.h: an argument that means something, by its type. Texts
// are empty, lists are zeros.
#pragma once

#include <mpi.h>

#include <array>
#include <cstddef>
#include <string_view>
#include <type_traits>

// Each address has memory of its own, for more than any of these calls stores.
constexpr std::size_t argument_bytes = 16384;
constexpr std::size_t arguments_max = 16;
alignas(64) inline std::array<char, arguments_max * argument_bytes> memory{};
inline std::size_t arguments_with_memory = 0;

struct Given {
  int number = 0;  // a count, a rank, a key: whatever is a number
  MPI_Comm comm = MPI_COMM_SELF;
  MPI_Datatype datatype = MPI_INT;
  MPI_Info info = MPI_INFO_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Message message = MPI_MESSAGE_NO_PROC;
};
inline Given given;

template <class T>
struct Value {
  static T get() { return static_cast<T>(std::is_enum_v<T> ? 0 : given.number); }
};
template <class T>
struct Value<T*> {
  static T* get() {
    return reinterpret_cast<T*>(memory.data() + arguments_with_memory++ * argument_bytes);
  }
};
template <class Result, class... Arguments>
struct Value<Result (*)(Arguments...)> {
  static Result function(Arguments...) { return Result(); }
  static auto get() { return &function; }
};

template <class T>
struct Handle {
  static constexpr bool is_one = false;
};
#define HANDLE(type, null, value)              \
  template <>                                  \
  struct Handle<type> {                        \
    static constexpr bool is_one = true;       \
    static type null_handle() { return null; } \
  };                                           \
  template <>                                  \
  struct Value<type> {                         \
    static type get() { return value; }        \
  };
HANDLE(MPI_Comm, MPI_COMM_NULL, given.comm)
HANDLE(MPI_Datatype, MPI_DATATYPE_NULL, given.datatype)
HANDLE(MPI_Op, MPI_OP_NULL, MPI_SUM)
HANDLE(MPI_Group, MPI_GROUP_NULL, MPI_GROUP_EMPTY)
HANDLE(MPI_Info, MPI_INFO_NULL, given.info)
HANDLE(MPI_Errhandler, MPI_ERRHANDLER_NULL, MPI_ERRORS_RETURN)
HANDLE(MPI_Request, MPI_REQUEST_NULL, given.request)
HANDLE(MPI_Message, MPI_MESSAGE_NULL, given.message)
HANDLE(MPI_Session, MPI_SESSION_NULL, MPI_SESSION_NULL)
HANDLE(MPI_Win, MPI_WIN_NULL, MPI_WIN_NULL)
HANDLE(MPI_File, MPI_FILE_NULL, MPI_FILE_NULL)
HANDLE(MPI_T_enum, MPI_T_ENUM_NULL, MPI_T_ENUM_NULL)
HANDLE(MPI_T_cvar_handle, MPI_T_CVAR_HANDLE_NULL, MPI_T_CVAR_HANDLE_NULL)
HANDLE(MPI_T_pvar_handle, MPI_T_PVAR_HANDLE_NULL, MPI_T_PVAR_HANDLE_NULL)
HANDLE(MPI_T_pvar_session, MPI_T_PVAR_SESSION_NULL, MPI_T_PVAR_SESSION_NULL)
HANDLE(MPI_T_event_registration, nullptr, nullptr)
HANDLE(MPI_T_event_instance, nullptr, nullptr)
#undef HANDLE

template <class T>
constexpr bool is_handle = Handle<T>::is_one;
template <class T>
constexpr bool is_address = std::is_pointer_v<T> && !is_handle<T>;

inline std::string_view without_c(std::string_view name) {
  if (name.ends_with("_c")) name.remove_suffix(2);
  return name;
}
