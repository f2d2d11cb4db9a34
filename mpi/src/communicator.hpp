// SPDX-License-Identifier: MIT
// Communicators: qpmesh's, with what MPI hangs on them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "attribute.hpp"
#include "counted.hpp"
#include "error.hpp"
#include "group.hpp"
#include "info.hpp"
#include "mpi.h"
#include "qpmesh/qpmesh.h"
#include "threads.hpp"
#include "topology.hpp"

namespace qpmesh::mpi {

class BsendBuffer;

struct Communicator : Handled<Communicator> {
  // Every operation counts its communicator: two locked instructions, where threads may count at
  // once.
  void count_one_more() noexcept {
    if (threads_at_once) [[unlikely]]
      return Counted::count_one_more();
    references.store(references.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  bool count_one_less() noexcept {
    if (threads_at_once) [[unlikely]]
      return Counted::count_one_less();
    const int left = references.load(std::memory_order_relaxed) - 1;
    references.store(left, std::memory_order_relaxed);
    return left == 0;
  }

  // Owns the mesh's communicator.
  explicit Communicator(qpmesh_communicator* of);
  // A duplicate of the parent, whose mesh comes later.
  Communicator(const Communicator& parent, std::nullptr_t) noexcept;
  ~Communicator();

  MPI_Comm handle() noexcept {
    return predefined != MPI_COMM_NULL ? predefined : reinterpret_cast<MPI_Comm>(this);
  }

  qpmesh_communicator* mesh;
  int rank;
  int size;
  MPI_Comm predefined = MPI_COMM_NULL;  // its handle where that is a number
  Reference<Group> group{};             // made when it is asked for: group_of(communicator)
  Changeable<Reference<Errhandler>> errhandler{};
  Attributes<MPI_Comm> attributes{};
  std::shared_ptr<const Topology> topology{};
  Changeable<Reference<Info>> info{};
  Changeable<std::string> name{};
  std::shared_ptr<BsendBuffer> buffer{};  // MPI_Comm_attach_buffer
};

// MPI_COMM_WORLD and MPI_COMM_SELF by number: null before MPI_Init and after MPI_Finalize.
extern Communicator* predefined_communicators[3];  // from MPI_COMM_NULL on
constexpr std::uintptr_t communicators_first = 0x100;
// Null where the handle is, or was freed, and before and after MPI.
inline Communicator* communicator_of(MPI_Comm handle) noexcept {
  const std::uintptr_t number = number_of(handle);
  if (number >= predefined_handles) return object_of<Communicator>(handle);
  const std::uintptr_t index = number - communicators_first;
  return index < 3 ? predefined_communicators[index] : nullptr;
}
// Says which of these it is.
[[noreturn]] void fail_without_communicator(MPI_Comm handle);

// A call on a communicator: body(communicator) inside of guarded.
template <class Body>
int on_communicator(const char* function, MPI_Comm handle, Body&& body) {
  Communicator* const own = communicator_of(handle);
  return guarded(function, own, [&] {
    if (own == nullptr) fail_without_communicator(handle);
    std::forward<Body>(body)(*own);
  });
}

// Its ranks, by their ranks in MPI_COMM_WORLD. Local.
Group& group_of(Communicator& communicator);

// Makes a communicator of the mesh's: the error handler is the parent's; hints, attributes and
// topology are not.
Reference<Communicator> adopt(qpmesh_communicator* mesh, const Communicator& parent);
// A duplicate of the ranks alone, for topology.cpp: without attributes. Collective.
Reference<Communicator> duplicate_ranks(Communicator& parent);
// The ranks of equal color, ordered by key; null for MPI_UNDEFINED. Collective.
Reference<Communicator> split_ranks(Communicator& parent, int color, int key);

}  // namespace qpmesh::mpi
