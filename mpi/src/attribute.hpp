// Attributes: what a program hangs on communicators and datatypes, under keys of its own.
#pragma once

#include <vector>

#include "counted.hpp"
#include "mpi.h"

namespace qpmesh::mpi {

// A key, with the functions that copy and delete what is set under it. Freed, it lives on in the
// attributes that have it.
struct Keyval;

// The attributes of one object, in the order in which they were set. Handle: MPI_Comm,
// MPI_Datatype. Failures have the code of the program's function that failed.
template <class Handle>
class Attributes {
 public:
  Attributes();
  ~Attributes();

  // The value, or null where none is set.
  void* const* find(int keyval) const noexcept;
  // Failure{MPI_ERR_KEYVAL} where the key is not one for such objects. What was there is deleted.
  void set(int keyval, void* value, Handle owner);
  void remove(int keyval, Handle owner);

  // What the copy functions say that a new object gets of this one's. After a failure it has what
  // was copied until then.
  void copy_to(Attributes& copies, Handle owner) const;
  // By the delete functions, the last one first. An attribute whose function fails stays, with
  // those before it.
  void clear(Handle owner);

 private:
  struct Entry {
    Reference<Keyval> key;
    void* value;
  };
  typename std::vector<Entry>::iterator entry_of(const Keyval& key);

  std::vector<Entry> entries_;
};

}  // namespace qpmesh::mpi
