// SPDX-License-Identifier: MIT
// What each thread has of its own.
#pragma once

#include <pthread.h>

namespace qpmesh::mpi {

// One T of each thread, made when it is first asked for. MPI may be called in destructors of the
// program's own objects of a thread, of static ones, and in functions that run at exit: this lasts
// until the keys of pthreads go, which is later; in a process that exits they never do.
template <class T>
class OfThread {
 public:
  static T& get() {
    if (own_ == nullptr) [[unlikely]]
      make();
    return *own_;
  }

 private:
  static void make() {
    static const Key key;
    own_ = new T{};
    if (key.is_made) pthread_setspecific(key.key, own_);  // else it is never given back
  }
  struct Key {
    Key() noexcept : is_made{pthread_key_create(&key, &give_back) == 0} {}
    pthread_key_t key{};
    bool is_made;
  };
  static void give_back(void* made) {
    own_ = nullptr;
    delete static_cast<T*>(made);
  }

  static constinit inline thread_local T* own_ = nullptr;
};

}  // namespace qpmesh::mpi
