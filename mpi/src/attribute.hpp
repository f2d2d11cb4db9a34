// SPDX-License-Identifier: MIT
// Attributes: what a program hangs on communicators and datatypes, under keys of its own.
#pragma once

#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "counted.hpp"
#include "mpi.h"

namespace qpmesh::mpi {

// A key, with the functions that copy and delete what is set under it. Freed, it lives on in the
// attributes that have it.
struct Keyval;

// The attributes of one object, in the order in which they were set. Handle: MPI_Comm,
// MPI_Datatype. Failures have the code of the program's function that failed.
//
// Threads may call at once, but for clear. While a function of the program's runs on an attribute,
// other threads that want to run one on it, too, wait: each value is deleted once, and none is
// copied that is being deleted. No lock is held meanwhile, and the function may call MPI; but two
// functions that set each other's attributes from two threads would wait for each other.
template <class Handle>
class Attributes {
 public:
  Attributes();
  ~Attributes();

  // The value, or nothing where none is set.
  std::optional<void*> find(int keyval) const;
  // Failure{MPI_ERR_KEYVAL} where the key is not one for such objects. What was there is deleted.
  void set(int keyval, void* value, Handle owner);
  void remove(int keyval, Handle owner);

  // What the copy functions say that a new object gets of this one's. After a failure it has what
  // was copied until then.
  void copy_to(Attributes& copies, Handle owner);
  // By the delete functions, the last one first. An attribute whose function fails stays, with
  // those before it. The object goes: no other thread uses it.
  void clear(Handle owner);

 private:
  struct Entry {
    Reference<Keyval> key;
    void* value;
    std::thread::id user{};  // whose function runs on it,
    int uses = 0;            // and in how many calls, each inside of the one before
  };
  using Iterator = typename std::vector<Entry>::iterator;
  using Lock = std::unique_lock<std::mutex>;
  Iterator entry_of(const Keyval& key);
  // Waits until no other thread uses the attribute, and runs function(value) without the lock.
  // True: it was there; entry is where it is now, or end() where the function has taken it away.
  template <class Function>
  bool use(Lock& lock, const Keyval& key, Iterator& entry, const Function& function);

  std::vector<Entry> entries_;
};

// A step of making a duplicate. Where it fails there is none: what was copied until then goes by
// its delete functions.
template <class Object, class Step>
void make_or_undo(Object& copy, const Step& step) {
  try {
    step();
  } catch (...) {
    const LentHandle lent{copy};
    copy.attributes.clear(copy.handle());
    throw;
  }
}

}  // namespace qpmesh::mpi
