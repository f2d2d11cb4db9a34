// Every function of mpi.h with one address null at a time: what comes back may be an error, and the
// process lives.
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

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

// ---- an argument that means something, by its type: lists are empty, texts too ----

constexpr std::size_t memory_bytes = 65536;  // more than any result of these calls
alignas(64) std::array<char, memory_bytes> memory{};

template <class T>
struct Value {
  static T get() { return T{}; }
};
template <class T>
struct Value<T*> {
  static T* get() { return reinterpret_cast<T*>(memory.data()); }
};
template <class Result, class... Arguments>
struct Value<Result (*)(Arguments...)> {
  static Result function(Arguments...) { return Result(); }
  static auto get() { return &function; }
};

template <class T>
constexpr bool is_handle = false;
#define HANDLE(type, value)              \
  template <>                            \
  constexpr bool is_handle<type> = true; \
  template <>                            \
  struct Value<type> {                   \
    static type get() { return value; }  \
  };
HANDLE(MPI_Comm, MPI_COMM_SELF)
HANDLE(MPI_Datatype, MPI_INT)
HANDLE(MPI_Op, MPI_SUM)
HANDLE(MPI_Group, MPI_GROUP_EMPTY)
HANDLE(MPI_Info, MPI_INFO_NULL)
HANDLE(MPI_Errhandler, MPI_ERRORS_RETURN)
HANDLE(MPI_Request, MPI_REQUEST_NULL)
HANDLE(MPI_Message, MPI_MESSAGE_NO_PROC)
HANDLE(MPI_Session, MPI_SESSION_NULL)
HANDLE(MPI_Win, MPI_WIN_NULL)
HANDLE(MPI_File, MPI_FILE_NULL)
#undef HANDLE

template <class T>
constexpr bool is_address = std::is_pointer_v<T> && !is_handle<T>;

// ---- the calls ----

int calls = 0;

// With these arguments they wait, rightly, for a message or a receive.
bool waits(std::string_view name) {
  constexpr std::array<std::string_view, 4> waiting{"Recv", "Ssend", "Probe", "Mprobe"};
  if (name.ends_with("_c")) name.remove_suffix(2);
  return std::ranges::find(waiting, name) != waiting.end();
}

template <std::size_t index, class Result, class... Arguments>
void call_with_null([[maybe_unused]] Result (*function)(Arguments...)) {
  using All = std::tuple<Arguments...>;
  if constexpr (is_address<std::tuple_element_t<index, All>>) {
    memory.fill(0);
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

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  for (const int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGALRM}) std::signal(signal, died);
  ::alarm(60);

#define MPI_ABI_FUNCTION(result, name, arguments) try_nulls(#name, &MPI_##name);
#define MPI_ABI_COUNTED(name, arguments) \
  try_nulls(#name, &MPI_##name);         \
  try_nulls(#name "_c", &MPI_##name##_c);
#include "mpi_counted_functions.h"
#include "mpi_functions.h"

  std::printf("%d calls\n", calls);
  return MPI_Finalize() == MPI_SUCCESS && calls > 500 ? 0 : 1;
}
