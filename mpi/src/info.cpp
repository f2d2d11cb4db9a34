// SPDX-License-Identifier: MIT
#include "info.hpp"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstring>
#include <fstream>
#include <iterator>

#include "entry.hpp"
#include "environment.hpp"
#include "error.hpp"

namespace qpmesh::mpi {
namespace {

// How the process was started; the same at any time.
Info& start_info() {
  static Info* const info = [] {
    auto* const made = new Info;
    std::ifstream file{"/proc/self/cmdline"};
    const std::string words{std::istreambuf_iterator<char>{file}, {}};
    const std::size_t end = std::min(words.find('\0'), words.size());
    std::string rest = words.substr(std::min(end + 1, words.size()));
    std::ranges::replace(rest, '\0', ' ');
    if (!rest.empty()) rest.pop_back();
    made->set("command", words.substr(0, end));
    if (!rest.empty()) made->set("argv", rest);
    std::array<char, PATH_MAX> directory{};
    if (::getcwd(directory.data(), directory.size()) != nullptr)
      made->set("wdir", directory.data());
    utsname system{};
    if (::uname(&system) == 0) {
      made->set("host", system.nodename);
      made->set("arch", system.machine);
    }
    return made;
  }();
  return *info;
}

struct Level {
  int level;
  const char* name;
};
const Level levels[] = {{MPI_THREAD_SINGLE, "MPI_THREAD_SINGLE"},
                        {MPI_THREAD_FUNNELED, "MPI_THREAD_FUNNELED"},
                        {MPI_THREAD_SERIALIZED, "MPI_THREAD_SERIALIZED"},
                        {MPI_THREAD_MULTIPLE, "MPI_THREAD_MULTIPLE"}};

// MPI_INFO_ENV: that, and the job's size and threads from MPI_Init on.
Info& environment_info() {
  static Info* const info = new Info{start_info().pairs()};
  if (const Communicator* const world = communicator_of(MPI_COMM_WORLD)) {
    info->set("maxprocs", std::to_string(world->size));
    info->set("thread_level",
              std::ranges::find(levels, environment.thread_level, &Level::level)->name);
  }
  return *info;
}

// One that the program may change.
Info& own_info(MPI_Info handle) {
  Info& info = given_info(handle);
  require(!is_predefined(handle), MPI_ERR_INFO, "MPI_INFO_ENV cannot be changed");
  return info;
}

void check_key(const char* key) {
  require(key != nullptr && *key != '\0', MPI_ERR_INFO_KEY, "the key is null or empty");
  require(std::strlen(key) < MPI_MAX_INFO_KEY, MPI_ERR_INFO_KEY, "the key ", key,
          " is longer than ", MPI_MAX_INFO_KEY - 1);
}

// At most so many characters, and the end.
void store(std::string_view text, char* target, std::size_t length_max) {
  const std::size_t length = std::min(text.size(), length_max);
  std::memcpy(target, text.data(), length);
  target[length] = '\0';
}

MPI_Info copy_of(const Info& info) { return handle_for_program(make<Info>(info.pairs())); }

}  // namespace

Info::Pairs Info::pairs() const {
  const std::lock_guard lock{mutex_};
  return pairs_;
}

std::optional<std::string> Info::find(std::string_view key) const {
  const std::lock_guard lock{mutex_};
  const auto pair = std::ranges::find(pairs_, key, &Pairs::value_type::first);
  return pair == pairs_.end() ? std::nullopt : std::optional{pair->second};
}

void Info::set(std::string_view key, std::string_view value) {
  const std::lock_guard lock{mutex_};
  const auto pair = std::ranges::find(pairs_, key, &Pairs::value_type::first);
  if (pair != pairs_.end()) pair->second = value;
  else pairs_.emplace_back(key, value);
}

bool Info::erase(std::string_view key) {
  const std::lock_guard lock{mutex_};
  return std::erase_if(pairs_, [&](const auto& pair) { return pair.first == key; }) > 0;
}

Info* info_of(MPI_Info handle) noexcept {
  if (!is_predefined(handle)) return object_of<Info>(handle);
  return handle == MPI_INFO_ENV ? &environment_info() : nullptr;
}

Info& given_info(MPI_Info handle) {
  return require_object(info_of(handle), MPI_ERR_INFO,
                        handle == MPI_INFO_NULL ? "the info object is MPI_INFO_NULL"
                                                : "this is no info object, or was freed");
}

const Info* given_info_or_null(MPI_Info handle) {
  return handle == MPI_INFO_NULL ? nullptr : &given_info(handle);
}

}  // namespace qpmesh::mpi

using namespace qpmesh::mpi;

QPMESH_MPI_ENTRY(Info_create, (MPI_Info * info)) {
  return guarded("MPI_Info_create", [&] {
    check_addresses(info);
    *info = handle_for_program(make<Info>());
  });
}
QPMESH_MPI_ENTRY(Info_create_env, (int, char*[], MPI_Info* info)) {
  return guarded("MPI_Info_create_env", [&] {
    check_addresses(info);
    *info = copy_of(start_info());
  });
}
QPMESH_MPI_ENTRY(Info_dup, (MPI_Info info, MPI_Info* newinfo)) {
  return guarded("MPI_Info_dup", [&] {
    check_addresses(newinfo);
    *newinfo = copy_of(given_info(info));
  });
}
QPMESH_MPI_ENTRY(Info_free, (MPI_Info * info)) {
  return guarded("MPI_Info_free", [&] {
    check_addresses(info);
    take_back(own_info(*info));
    *info = MPI_INFO_NULL;
  });
}
QPMESH_MPI_ENTRY(Info_set, (MPI_Info info, const char* key, const char* value)) {
  return guarded("MPI_Info_set", [&] {
    Info& own = own_info(info);
    check_key(key);
    require(value != nullptr, MPI_ERR_INFO_VALUE, "the value of ", key, " is null");
    require(std::strlen(value) < MPI_MAX_INFO_VAL, MPI_ERR_INFO_VALUE, "the value of ", key,
            " is longer than ", MPI_MAX_INFO_VAL - 1);
    own.set(key, value);
  });
}
QPMESH_MPI_ENTRY(Info_delete, (MPI_Info info, const char* key)) {
  return guarded("MPI_Info_delete", [&] {
    Info& own = own_info(info);
    check_key(key);
    require(own.erase(key), MPI_ERR_INFO_NOKEY, "there is no key ", key);
  });
}
QPMESH_MPI_ENTRY(Info_get,
                 (MPI_Info info, const char* key, int value_length, char* value, int* flag)) {
  return guarded("MPI_Info_get", [&] {
    check_addresses(value, flag);
    check_key(key);
    require(value_length >= 0, MPI_ERR_ARG, "valuelen is ", value_length);
    const auto found = given_info(info).find(key);
    *flag = found ? 1 : 0;
    if (found) store(*found, value, static_cast<std::size_t>(value_length));
  });
}
QPMESH_MPI_ENTRY(Info_get_valuelen,
                 (MPI_Info info, const char* key, int* value_length, int* flag)) {
  return guarded("MPI_Info_get_valuelen", [&] {
    check_addresses(value_length, flag);
    check_key(key);
    const auto found = given_info(info).find(key);
    *flag = found ? 1 : 0;
    if (found) *value_length = static_cast<int>(found->size());
  });
}
// *length: the room at value, with the end; then what the value needs.
QPMESH_MPI_ENTRY(Info_get_string,
                 (MPI_Info info, const char* key, int* length, char* value, int* flag)) {
  return guarded("MPI_Info_get_string", [&] {
    check_addresses(length, flag);
    check_key(key);
    const auto found = given_info(info).find(key);
    *flag = found ? 1 : 0;
    if (!found) return;
    if (*length > 0) {
      check_addresses(value);
      store(*found, value, static_cast<std::size_t>(*length) - 1);
    }
    *length = static_cast<int>(found->size()) + 1;
  });
}
QPMESH_MPI_ENTRY(Info_get_nkeys, (MPI_Info info, int* count)) {
  return guarded("MPI_Info_get_nkeys", [&] {
    check_addresses(count);
    *count = static_cast<int>(given_info(info).pairs().size());
  });
}
QPMESH_MPI_ENTRY(Info_get_nthkey, (MPI_Info info, int n, char* key)) {
  return guarded("MPI_Info_get_nthkey", [&] {
    check_addresses(key);
    const Info::Pairs pairs = given_info(info).pairs();
    const auto index = static_cast<std::size_t>(n);
    require(n >= 0 && index < pairs.size(), MPI_ERR_INFO_NOKEY, "key ", n, " of ", pairs.size());
    store(pairs[index].first, key, MPI_MAX_INFO_KEY - 1);
  });
}
