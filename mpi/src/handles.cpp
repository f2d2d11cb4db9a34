// SPDX-License-Identifier: MIT
// For Fortran, whose bindings are somebody else's library: handles as numbers, and what it tells of
// its types. Predefined handles are their values; others get numbers when they are asked for, and
// keep them.
#include <array>
#include <cstring>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "counted.hpp"
#include "entry.hpp"
#include "error.hpp"
#include "info.hpp"

namespace qpmesh::mpi {
namespace {

// The numbers of one kind of handle.
template <class Handle>
class NumberOf {
 public:
  int number(Handle handle) {
    if (is_predefined(handle)) return static_cast<int>(number_of(handle));
    const std::lock_guard lock{mutex_};
    const auto [found, is_new] =
        numbers_.try_emplace(handle, static_cast<int>(predefined_handles + handles_.size()));
    if (is_new) handles_.push_back(handle);
    return found->second;
  }
  // Of no number that was given: the handle of that value, which is none.
  Handle handle(int number) {
    const std::lock_guard lock{mutex_};
    const auto index = static_cast<std::size_t>(number) - predefined_handles;
    if (index < handles_.size()) return handles_[index];
    return reinterpret_cast<Handle>(static_cast<std::uintptr_t>(number));
  }
  static NumberOf& all() {
    static auto* const own = new NumberOf;  // asked also in functions that run at exit
    return *own;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<Handle, int> numbers_;
  std::vector<Handle> handles_;
};

// Of what follows: it may be asked for before MPI_Init, by several threads.
std::mutex fortran_mutex;
Reference<Info> fortran_info;

// .TRUE. and .FALSE. of a LOGICAL of so many bytes.
struct Booleans {
  std::array<std::byte, 16> yes{};
  std::array<std::byte, 16> no{};
  bool is_set = false;
};
std::unordered_map<int, Booleans> fortran_booleans;

void check_logical(int bytes) {
  require(bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8 || bytes == 16, MPI_ERR_ARG,
          "a LOGICAL of ", bytes, " bytes");
}

}  // namespace
}  // namespace qpmesh::mpi

using namespace qpmesh::mpi;

#define QPMESH_MPI_NUMBERED(kind, handle_type)                     \
  QPMESH_MPI_ENTRY(kind##_toint, (handle_type handle)) {           \
    return NumberOf<handle_type>::all().number(handle);            \
  }                                                                \
  QPMESH_MPI_ENTRY_OF(handle_type, kind##_fromint, (int number)) { \
    return NumberOf<handle_type>::all().handle(number);            \
  }

QPMESH_MPI_NUMBERED(Comm, MPI_Comm)
QPMESH_MPI_NUMBERED(Errhandler, MPI_Errhandler)
QPMESH_MPI_NUMBERED(File, MPI_File)
QPMESH_MPI_NUMBERED(Group, MPI_Group)
QPMESH_MPI_NUMBERED(Info, MPI_Info)
QPMESH_MPI_NUMBERED(Message, MPI_Message)
QPMESH_MPI_NUMBERED(Op, MPI_Op)
QPMESH_MPI_NUMBERED(Request, MPI_Request)
QPMESH_MPI_NUMBERED(Session, MPI_Session)
QPMESH_MPI_NUMBERED(Type, MPI_Datatype)
QPMESH_MPI_NUMBERED(Win, MPI_Win)

QPMESH_MPI_ENTRY(Abi_set_fortran_info, (MPI_Info info)) {
  return guarded("MPI_Abi_set_fortran_info", [&] {
    const std::lock_guard lock{fortran_mutex};
    require(!fortran_info, MPI_ERR_ABI, "it has been set");
    const Info& own = given_info(info);
    fortran_info = make<Info>(own.pairs());
  });
}

QPMESH_MPI_ENTRY(Abi_get_fortran_info, (MPI_Info * info)) {
  return guarded("MPI_Abi_get_fortran_info", [&] {
    check_addresses(info);
    const std::lock_guard lock{fortran_mutex};
    *info = fortran_info ? handle_for_program(make<Info>(fortran_info->pairs())) : MPI_INFO_NULL;
  });
}

QPMESH_MPI_ENTRY(Abi_set_fortran_booleans,
                 (int logical_size, void* logical_true, void* logical_false)) {
  return guarded("MPI_Abi_set_fortran_booleans", [&] {
    check_logical(logical_size);
    check_addresses(logical_true, logical_false);
    const std::lock_guard lock{fortran_mutex};
    Booleans& own = fortran_booleans[logical_size];
    require(!own.is_set, MPI_ERR_ABI, "they have been set");
    std::memcpy(own.yes.data(), logical_true, static_cast<std::size_t>(logical_size));
    std::memcpy(own.no.data(), logical_false, static_cast<std::size_t>(logical_size));
    own.is_set = true;
  });
}

QPMESH_MPI_ENTRY(Abi_get_fortran_booleans,
                 (int logical_size, void* logical_true, void* logical_false, int* is_set)) {
  return guarded("MPI_Abi_get_fortran_booleans", [&] {
    check_logical(logical_size);
    check_addresses(logical_true, logical_false, is_set);
    const std::lock_guard lock{fortran_mutex};
    const Booleans& own = fortran_booleans[logical_size];
    *is_set = own.is_set;
    if (!own.is_set) return;
    std::memcpy(logical_true, own.yes.data(), static_cast<std::size_t>(logical_size));
    std::memcpy(logical_false, own.no.data(), static_cast<std::size_t>(logical_size));
  });
}
