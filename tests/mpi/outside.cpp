// SPDX-License-Identifier: MIT
// Every function of mpi.h before MPI_Init and after MPI_Finalize: those that may be called at any
// time (MPI 5.0, 11.4.1) find nothing wrong with it, and each other one ends its process and says
// why. A child makes each call.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "every_function.hpp"

namespace {

bool is_before = true;
int functions = 0;
int failures = 0;

void says(bool holds, std::string_view function, const char* sentence, std::string_view text) {
  if (holds) return;
  ++failures;
  std::fprintf(stderr, "%s: not so of %.*s: %s; it said: %.*s\n", is_before ? "before" : "after",
               static_cast<int>(function.size()), function.data(), sentence,
               static_cast<int>(text.size()), text.data());
}

// They have no error to return, end the process in any case, or are what is waited for.
bool has_no_say(std::string_view name) {
  constexpr std::array<std::string_view, 5> names{"Wtime", "Wtick", "Aint_add", "Aint_diff",
                                                  "Abort"};
  return std::ranges::find(names, name) != names.end() ||
         (is_before && (name == "Init" || name == "Init_thread"));
}

bool is_allowed(std::string_view name) {
  constexpr std::array<std::string_view, 6> names{"Initialized",         "Finalized",
                                                  "Get_version",         "Errhandler_free",
                                                  "Get_library_version", "Error_string"};
  constexpr std::array<std::string_view, 5> prefixes{"Info_", "Abi_", "Error_class", "Add_error_",
                                                     "Remove_error_"};
  return std::ranges::find(names, name) != names.end() ||
         std::ranges::any_of(prefixes,
                             [&](std::string_view prefix) { return name.starts_with(prefix); }) ||
         name.ends_with("_toint") || name.ends_with("_fromint");
}

// What a child writes to stderr, and how it ends.
struct Ending {
  std::string text;
  int status = -1;
};
template <class Call>
Ending ending_of(const Call& call) {
  std::array<int, 2> pipe{};
  if (::pipe(pipe.data()) != 0) std::abort();
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    ::dup2(pipe[1], STDERR_FILENO);
    call();
    std::_Exit(0);
  }
  ::close(pipe[1]);
  Ending ending;
  std::array<char, 1024> part{};
  for (ssize_t got = 0; (got = ::read(pipe[0], part.data(), part.size())) > 0;)
    ending.text.append(part.data(), static_cast<std::size_t>(got));
  ::close(pipe[0]);
  ::waitpid(child, &ending.status, 0);
  return ending;
}

// Where a call finds requests and messages.
template <class T>
void fill(T) {}
template <class T>
void fill(T* address) {
  if constexpr (std::is_same_v<T, MPI_Request>) *address = given.request;
  if constexpr (std::is_same_v<T, MPI_Message>) *address = given.message;
}

template <class Result, class... Arguments>
void try_outside(std::string_view name, Result (*function)(Arguments...)) {
  if (has_no_say(name)) return;
  ++functions;
  memory.fill(0);
  arguments_with_memory = 0;
  const auto [text, status] = ending_of([&] {
    const std::tuple<Arguments...> arguments{Value<Arguments>::get()...};
    std::apply([](auto... each) { (fill(each), ...); }, arguments);
    std::apply(function, arguments);
  });
  const std::string why = is_before ? "MPI_Init has not been called" : "MPI has been finalized";
  if (is_allowed(name)) {
    says(WIFEXITED(status), name, "it neither crashes nor hangs", text);
    says(text.find(why) == std::string::npos, name, "it may be called at any time", text);
    return;
  }
  says(WIFEXITED(status) && WEXITSTATUS(status) != 0, name, "it ends the process", text);
  says(text.starts_with("qpmesh: MPI_" + std::string{name} + ": MPI_ERR_OTHER: " + why), name,
       "it says what is wrong", text);
}
int call_pcontrol(int level) { return MPI_Pcontrol(level); }
void try_outside(std::string_view name, int (*)(int, ...)) { try_outside(name, &call_pcontrol); }

void try_all() {
#define MPI_ABI_FUNCTION(result, name, arguments) try_outside(#name, &MPI_##name);
#define MPI_ABI_MISSING(name, arguments)
#define MPI_ABI_COUNTED(name, arguments) \
  try_outside(#name, &MPI_##name);       \
  try_outside(#name "_c", &MPI_##name##_c);
#define MPI_ABI_COUNTED_MISSING(name, arguments)
#include "mpi_counted_functions.h"
#include "mpi_functions.h"
}

}  // namespace

int main(int argc, char** argv) {
  try_all();
  MPI_Init(&argc, &argv);
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Datatype datatype = MPI_DATATYPE_NULL;
  // Nothing frees them any more. They are no leaks, for here they are to be found.
  static MPI_Request request = MPI_REQUEST_NULL;
  static MPI_Request started = MPI_REQUEST_NULL;
  static MPI_Message message = MPI_MESSAGE_NULL;
  int number = 0;
  int got = 0;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Type_vector(2, 1, 2, MPI_INT, &datatype);
  MPI_Type_commit(&datatype);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Recv_init(&got, 1, MPI_INT, 0, 1, comm, &request);
  MPI_Irecv(&got, 1, MPI_INT, 0, 2, comm, &started);
  MPI_Send(&number, 1, MPI_INT, 0, 2, comm);
  MPI_Send(&number, 1, MPI_INT, 0, 3, comm);
  MPI_Mprobe(0, 3, comm, &message, MPI_STATUS_IGNORE);
  MPI_Finalize();
  is_before = false;
  try_all();
  given.comm = comm;
  given.datatype = datatype;
  given.message = message;
  given.number = 1;  // lists have one request
  for (const MPI_Request each : {request, started}) {
    given.request = each;
    try_all();
  }
  std::printf("%d calls\n", functions);
  return failures == 0 && functions > 1000 ? 0 : 1;
}
