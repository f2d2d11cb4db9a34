// SPDX-License-Identifier: MIT
// Functions of the standard that the library does not have: each is an error with its name, sets
// the handles that it would have made to null, and is told where no error handler is to tell it.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "every_function.hpp"
#include "memory_switch.hpp"

namespace {

int functions = 0;
int failures = 0;

void says(bool holds, const std::string& function, const char* sentence) {
  if (holds) return;
  ++failures;
  std::fprintf(stderr, "not so of %s: %s\n", function.c_str(), sentence);
}

// What a call writes to stderr.
template <class Call>
std::string told_by(const Call& call) {
  std::FILE* const file = std::tmpfile();
  const int before = ::dup(STDERR_FILENO);
  std::fflush(stderr);
  ::dup2(::fileno(file), STDERR_FILENO);
  call();
  std::fflush(stderr);
  ::dup2(before, STDERR_FILENO);
  ::close(before);
  std::string text(4096, '\0');
  text.resize(static_cast<std::size_t>(
      std::max<ssize_t>(0, ::pread(::fileno(file), text.data(), text.size(), 0))));
  std::fclose(file);
  return text;
}

// The interface for tools has codes of its own: it cannot begin, and has not begun.
int class_of_missing(std::string_view function) {
  if (!function.starts_with("MPI_T_")) return MPI_ERR_UNSUPPORTED_OPERATION;
  return function == "MPI_T_init_thread" ? MPI_T_ERR_CANNOT_INIT : MPI_T_ERR_NOT_INITIALIZED;
}
bool has_error_handler(std::string_view function) {
  return !function.starts_with("MPI_T_") && !function.starts_with("MPI_File_") &&
         !function.starts_with("MPI_Register_datarep");
}

template <class... Arguments>
int code_without_memory(int (*call)(Arguments...), const std::tuple<Arguments...>& arguments) {
  memory_is_there = false;
  int code = MPI_SUCCESS;
  try {
    code = std::apply(call, arguments);
  } catch (const std::bad_alloc&) {  // a function of C has none to throw
  }
  memory_is_there = true;
  return code;
}

// Not null before, null after the call: where a handle is to be set.
template <class T>
void fill(T) {}
template <class T>
  requires is_handle<T>
void fill(T* address) {
  std::ranges::fill(std::as_writable_bytes(std::span{address, 1}), std::byte{0x5a});
}
template <class T>
bool is_null_at(T) {
  return true;
}
template <class T>
  requires is_handle<T>
bool is_null_at(T* address) {
  return *address == Handle<T>::null_handle();
}

template <class... Arguments>
void try_missing(const std::string& function, int (*call)(Arguments...)) {
  ++functions;
  memory.fill(0);
  arguments_with_memory = 0;
  std::tuple<Arguments...> arguments{Value<Arguments>::get()...};
  std::apply([](auto... each) { (fill(each), ...); }, arguments);
  int code = MPI_SUCCESS;
  const std::string told = told_by([&] { code = std::apply(call, arguments); });
  int error_class = MPI_SUCCESS;
  MPI_Error_class(code, &error_class);
  says(error_class == class_of_missing(function), function, "the error has its class");
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  says(MPI_Error_string(code, text.data(), &length) == MPI_SUCCESS &&
           (std::string_view{text.data()}.starts_with(function + ":") ||
            std::string_view{text.data()}.starts_with(function + " on MPI_COMM_SELF,")),
       function, "the text of the error names the function");
  const bool are_null =
      std::apply([](auto... each) { return (is_null_at(each) && ...); }, arguments);
  says(code_without_memory(call, arguments) == code, function, "it needs no memory");
  // Whose lists of types are as long as the event has elements.
  says(are_null || function == "MPI_T_event_get_info", function, "handles are set to null");
  if (has_error_handler(function)) {
    says(told.empty(), function, "where errors return nothing is written");
    return;
  }
  says(told == "qpmesh: " + std::string{text.data()} + "\n", function, "it is told in one line");
  says(told_by([&] { std::apply(call, arguments); }).empty(), function, "it is told once");
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
#define MPI_ABI_FUNCTION(result, name, arguments)
#define MPI_ABI_MISSING(name, arguments) try_missing("MPI_" #name, &MPI_##name);
#define MPI_ABI_COUNTED(name, arguments)
#define MPI_ABI_COUNTED_MISSING(name, arguments) \
  try_missing("MPI_" #name, &MPI_##name);        \
  try_missing("MPI_" #name "_c", &MPI_##name##_c);
#include "mpi_counted_functions.h"
#include "mpi_functions.h"
  std::printf("%d functions\n", functions);
  says(functions > 0, "mpi_functions.h", "the lists were read");
  MPI_Finalize();
  return failures == 0 ? 0 : 1;
}
