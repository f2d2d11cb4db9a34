// SPDX-License-Identifier: MIT
// Threads that are in MPI at once, under MPI_THREAD_MULTIPLE: what a call does to an object is done
// before or after what another one does to it (MPI 5.0, 11.6.1).
#pragma once

#include <mutex>
#include <utility>

namespace qpmesh::mpi {

// MPI_Init says so. Otherwise one thread at a time is in MPI, and nothing is locked or counted for
// others.
extern bool threads_at_once;

// Of what all objects have that may change while others look: names, hints, error handlers,
// attributes. The calls are rare and short. No function of the program's runs under it.
extern std::mutex object_mutex;
inline std::unique_lock<std::mutex> lock_objects() {
  std::unique_lock lock{object_mutex, std::defer_lock};
  if (threads_at_once) lock.lock();
  return lock;
}

// A value of an object. Who reads it gets a copy.
template <class T>
class Changeable {
 public:
  T get() const {
    const auto lock = lock_objects();
    return value_;
  }
  // What was there goes without the lock.
  void set(T value) {
    const auto lock = lock_objects();
    std::swap(value_, value);
  }
  // To next(what it is): no other thread changes it meanwhile.
  template <class Next>
  void change(const Next& next) {
    T value{};  // what was there goes without the lock
    const auto lock = lock_objects();
    value = next(std::as_const(value_));
    std::swap(value_, value);
  }

 private:
  T value_{};
};

}  // namespace qpmesh::mpi
