// SPDX-License-Identifier: MIT
// The process: MPI's beginning and end, and what it tells of itself.
#include "environment.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "bsend.hpp"
#include "entry.hpp"
#include "request.hpp"

namespace qpmesh::mpi {

Environment environment;
bool threads_at_once = false;
std::mutex object_mutex;
Communicator* predefined_communicators[3] = {};

namespace {

std::thread::id main_thread;

qpmesh_communicator* mesh_of_world = nullptr;

// What MPI_COMM_WORLD and MPI_COMM_SELF were: a program may have requests on them.
Communicator* after_finalize[3] = {};

// What a program of MPI expects where nobody says otherwise: it waits as long as its peers compute.
std::vector<const char*> options_of(int thread_level) {
  std::vector<const char*> options;
  // NOLINTNEXTLINE(concurrency-mt-unsafe): no one sets it
  if (std::getenv("QPMESH_TIMEOUT_MS") == nullptr) options.push_back("QPMESH_TIMEOUT_MS=0");
  if (thread_level == MPI_THREAD_MULTIPLE) options.push_back("QPMESH_THREADS=several");
  options.push_back(nullptr);
  return options;
}

Communicator* predefined(MPI_Comm handle, qpmesh_communicator* mesh, const char* name) {
  auto* const own = new Communicator{mesh};
  own->predefined = handle;
  own->errhandler.set(default_errhandler());
  own->name.set(name);
  predefined_communicators[number_of(handle) - communicators_first] = own;
  return own;
}

void init(int required, int* provided) {
  require(environment.phase != Phase::running, MPI_ERR_OTHER, "MPI has been initialized before");
  require(environment.phase == Phase::before_init, MPI_ERR_OTHER,
          "MPI has been finalized, and cannot be initialized again");
  require(required == MPI_THREAD_SINGLE || required == MPI_THREAD_FUNNELED ||
              required == MPI_THREAD_SERIALIZED || required == MPI_THREAD_MULTIPLE,
          MPI_ERR_ARG, required, " is no thread level");
  check(qpmesh_init_with(options_of(required).data(), nullptr, &mesh_of_world));
  qpmesh_communicator* self = nullptr;
  check(qpmesh_self(mesh_of_world, &self));
  predefined(MPI_COMM_WORLD, mesh_of_world, "MPI_COMM_WORLD");
  predefined(MPI_COMM_SELF, self, "MPI_COMM_SELF");
  main_thread = std::this_thread::get_id();
  environment.thread_level = required;
  threads_at_once = required == MPI_THREAD_MULTIPLE;
  environment.phase = Phase::running;
  if (provided != nullptr) *provided = required;
}

// Is a communicator broken for good after it?
bool is_lasting(int code) noexcept {
  return code != QPMESH_OK && code != QPMESH_BAD_ARGUMENT && code != QPMESH_TRUNCATED;
}

void finalize() {
  require_running();
  Communicator& self = *communicator_of(MPI_COMM_SELF);
  self.attributes.clear(MPI_COMM_SELF);  // its functions may still call MPI
  communicator_of(MPI_COMM_WORLD)->attributes.clear(MPI_COMM_WORLD);
  finish_abandoned();
  flush_buffers();
  // A program that went on after an error has heard of it.
  const bool has_failed = is_lasting(qpmesh_last_error()->code);
  const int ended = qpmesh_finalize(std::exchange(mesh_of_world, nullptr), nullptr);
  communicator_of(MPI_COMM_WORLD)->mesh = nullptr;
  environment.phase = Phase::after_finalize;
  Communicator::forget_handles();  // of those that the program did not free, too
  if (!has_failed) check(ended);
}

int store_text(std::string_view text, char* target, std::size_t size_max) {
  const std::size_t length = std::min(text.size(), size_max - 1);
  std::memcpy(target, text.data(), length);
  target[length] = '\0';
  return static_cast<int>(length);
}

}  // namespace

void fail_outside() {
  require(environment.phase != Phase::before_init, MPI_ERR_OTHER,
          "MPI_Init has not been called: call it first");
  fail(MPI_ERR_OTHER, "MPI has been finalized: nothing may be called any more");
}

qpmesh_communicator* world_mesh() noexcept { return mesh_of_world; }

void abort_job(int code, const char* text) {
  // Who ends because another rank does has the reason in its text: it ends likewise, and says no
  // more.
  static constexpr std::string_view exit_code = " [the job ends with exit code ";
  std::fflush(stdout);
  if (const char* const found = std::strstr(text, exit_code.data())) {
    code = std::atoi(found + exit_code.size());
  } else {
    std::fprintf(stderr, "qpmesh: %s\n", text);
    std::fflush(stderr);
    // A launcher ends the others when it sees an error: a zero would be none.
    code = (code & 0xff) == 0 ? 1 : code & 0xff;
  }
  if (mesh_of_world != nullptr) {
    std::array<char, 4096> reason;
    constexpr int text_bytes_max = 4000;
    std::snprintf(reason.data(), reason.size(), "qpmesh: %.*s%s%d]", text_bytes_max, text,
                  exit_code.data(), code);
    qpmesh_abort(mesh_of_world, reason.data());
    qpmesh_progress(mesh_of_world);  // the news leaves before the process does
  }
  std::_Exit(code);
}

}  // namespace qpmesh::mpi

using namespace qpmesh::mpi;

QPMESH_MPI_ENTRY(Init, (int*, char***)) {
  return guarded("MPI_Init", [] { init(MPI_THREAD_SINGLE, nullptr); });
}

QPMESH_MPI_ENTRY(Init_thread, (int*, char***, int required, int* provided)) {
  return guarded("MPI_Init_thread", [&] { init(required, provided); });
}

QPMESH_MPI_ENTRY(Finalize, (void)) {
  const bool was_running = is_running();
  const int result = guarded("MPI_Finalize", finalize);
  // Not before: until here their handlers say what becomes of an error.
  if (was_running && !is_running())
    std::ranges::swap_ranges(predefined_communicators, after_finalize);
  return result;
}

QPMESH_MPI_ENTRY(Initialized, (int* flag)) {
  return guarded("MPI_Initialized", [&] {
    check_addresses(flag);
    *flag = environment.phase != Phase::before_init;
  });
}

QPMESH_MPI_ENTRY(Finalized, (int* flag)) {
  return guarded("MPI_Finalized", [&] {
    check_addresses(flag);
    *flag = environment.phase == Phase::after_finalize;
  });
}

QPMESH_MPI_ENTRY(Abort, (MPI_Comm, int errorcode)) {
  const Communicator* const world = communicator_of(MPI_COMM_WORLD);
  std::array<char, 64> caller{};
  if (world != nullptr) std::snprintf(caller.data(), caller.size(), " by rank %d", world->rank);
  std::array<char, 128> text;
  std::snprintf(text.data(), text.size(), "MPI_Abort was called%s with error code %d",
                caller.data(), errorcode);
  abort_job(errorcode, text.data());
}

QPMESH_MPI_ENTRY(Query_thread, (int* provided)) {
  return while_running("MPI_Query_thread", [&] {
    check_addresses(provided);
    *provided = environment.thread_level;
  });
}

QPMESH_MPI_ENTRY(Is_thread_main, (int* flag)) {
  return while_running("MPI_Is_thread_main", [&] {
    check_addresses(flag);
    *flag = std::this_thread::get_id() == main_thread;
  });
}

QPMESH_MPI_ENTRY(Get_version, (int* version, int* subversion)) {
  return guarded("MPI_Get_version", [&] {
    check_addresses(version, subversion);
    *version = MPI_VERSION;
    *subversion = MPI_SUBVERSION;
  });
}

QPMESH_MPI_ENTRY(Abi_get_version, (int* major, int* minor)) {
  return guarded("MPI_Abi_get_version", [&] {
    check_addresses(major, minor);
    *major = MPI_ABI_VERSION;
    *minor = MPI_ABI_SUBVERSION;
  });
}

QPMESH_MPI_ENTRY(Abi_get_info, (MPI_Info * info)) {
  return guarded("MPI_Abi_get_info", [&] {
    check_addresses(info);
    *info = handle_for_program(
        make<Info>(Info::Pairs{{"mpi_aint_size", std::to_string(sizeof(MPI_Aint))},
                               {"mpi_count_size", std::to_string(sizeof(MPI_Count))},
                               {"mpi_offset_size", std::to_string(sizeof(MPI_Offset))}}));
  });
}

// Nothing of the hardware is told.
QPMESH_MPI_ENTRY(Get_hw_resource_info, (MPI_Info * info)) {
  return while_running("MPI_Get_hw_resource_info", [&] {
    check_addresses(info);
    *info = handle_for_program(make<Info>());
  });
}

QPMESH_MPI_ENTRY(Get_library_version, (char* version, int* length)) {
  return guarded("MPI_Get_library_version", [&] {
    check_addresses(version, length);
    *length = store_text("qpmesh " QPMESH_VERSION, version, MPI_MAX_LIBRARY_VERSION_STRING);
  });
}

QPMESH_MPI_ENTRY(Get_processor_name, (char* name, int* length)) {
  return while_running("MPI_Get_processor_name", [&] {
    check_addresses(name, length);
    std::array<char, MPI_MAX_PROCESSOR_NAME> host{};
    require(::gethostname(host.data(), host.size() - 1) == 0, MPI_ERR_OTHER,
            "this host's name cannot be read: ", std::generic_category().message(errno));
    *length = store_text(host.data(), name, MPI_MAX_PROCESSOR_NAME);
  });
}

QPMESH_MPI_ENTRY(Pcontrol, (const int, ...)) {
  return while_running("MPI_Pcontrol", [] {});
}

QPMESH_MPI_ENTRY_OF(double, Wtime, (void)) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

QPMESH_MPI_ENTRY_OF(double, Wtick, (void)) {
  using Period = std::chrono::steady_clock::period;
  return static_cast<double>(Period::num) / static_cast<double>(Period::den);
}

QPMESH_MPI_ENTRY(Alloc_mem, (MPI_Aint size, MPI_Info info, void* baseptr)) {
  return while_running("MPI_Alloc_mem", [&] {
    require(size >= 0, MPI_ERR_ARG, size, " bytes are asked for");
    given_info_or_null(info);
    check(qpmesh_allocate_here(mesh_of_world, static_cast<std::size_t>(size),
                               static_cast<void**>(baseptr)));
  });
}

QPMESH_MPI_ENTRY(Free_mem, (void* base)) {
  return while_running("MPI_Free_mem", [&] { check(qpmesh_free(mesh_of_world, base)); });
}

QPMESH_MPI_ENTRY_OF(MPI_Aint, Aint_add, (MPI_Aint base, MPI_Aint displacement)) {
  return base + displacement;
}
QPMESH_MPI_ENTRY_OF(MPI_Aint, Aint_diff, (MPI_Aint address, MPI_Aint other)) {
  return address - other;
}
