// SPDX-License-Identifier: MIT
// The functions of mpi.h with one address null at a time, and several values of all other
// arguments: what comes back may be an error, and the process lives. Many calls fail of another
// argument before they come to the address.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <tuple>
#include <utility>

#include "every_function.hpp"

namespace {

const char* function_now = "";
std::size_t null_argument_now = 0;

extern "C" void died(int) {
  std::array<char, 200> text{};
  const int length =
      std::snprintf(text.data(), text.size(), "MPI_%s died where argument %zu is null\n",
                    function_now, null_argument_now + 1);
  if (::write(STDERR_FILENO, text.data(), static_cast<std::size_t>(length)) < 0) std::_Exit(2);
  std::_Exit(1);
}

// ---- the calls ----

int calls = 0;

// With these arguments they wait, rightly, for a message or a receive.
bool waits(std::string_view name) {
  constexpr std::array<std::string_view, 4> waiting{"Recv", "Ssend", "Probe", "Mprobe"};
  return std::ranges::find(waiting, without_c(name)) != waiting.end();
}

template <std::size_t index, class Result, class... Arguments>
void call_with_null([[maybe_unused]] Result (*function)(Arguments...)) {
  using All = std::tuple<Arguments...>;
  if constexpr (is_address<std::tuple_element_t<index, All>>) {
    static_assert(sizeof...(Arguments) <= arguments_max);
    memory.fill(0);
    arguments_with_memory = 0;
    All arguments{Value<Arguments>::get()...};
    std::get<index>(arguments) = nullptr;
    null_argument_now = index;
    ++calls;
    std::apply(function, arguments);
  }
}

template <class Result, class... Arguments>
void try_nulls(const char* name, Result (*function)(Arguments...)) {
  if (waits(name)) return;
  function_now = name;
  [&]<std::size_t... indexes>(std::index_sequence<indexes...>) {
    (call_with_null<indexes>(function), ...);
  }(std::index_sequence_for<Arguments...>{});
}
void try_nulls(const char*, int (*)(int, ...)) {}  // MPI_Pcontrol has no address

void try_all(const Given& with) {
  given = with;
#define MPI_ABI_FUNCTION(result, name, arguments) try_nulls(#name, &MPI_##name);
#define MPI_ABI_MISSING(name, arguments) try_nulls(#name, &MPI_##name);
#define MPI_ABI_COUNTED(name, arguments) \
  try_nulls(#name, &MPI_##name);         \
  try_nulls(#name "_c", &MPI_##name##_c);
#define MPI_ABI_COUNTED_MISSING(name, arguments) MPI_ABI_COUNTED(name, arguments)
#include "mpi_counted_functions.h"
#include "mpi_functions.h"
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  for (const int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGALRM}) std::signal(signal, died);
  ::alarm(60);

  // A rank that is its own neighbour in a graph, a type of two parts, hints of the program.
  const int degree = 1;
  const int self = 0;
  Given made{};
  MPI_Dist_graph_create(MPI_COMM_SELF, 1, &self, &degree, &self, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                        &made.comm);
  MPI_Type_vector(2, 1, 2, MPI_INT, &made.datatype);
  MPI_Type_commit(&made.datatype);
  MPI_Info_create(&made.info);
  for (const int number : std::array<int, 3>{0, 1, MPI_TAG_UB}) {
    made.number = number;
    try_all({number, MPI_COMM_SELF, MPI_INT, MPI_INFO_NULL});
    try_all(made);
  }

  std::printf("%d calls\n", calls);
  return MPI_Finalize() == MPI_SUCCESS && calls > 3000 ? 0 : 1;
}
