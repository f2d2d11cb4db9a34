// SPDX-License-Identifier: MIT
// Objects behind handles: counted, because a program may free a handle while operations, or other
// objects, still use what is behind it.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace qpmesh::mpi {

struct Counted {
  Counted() = default;
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

  void count_one_more() noexcept { references.fetch_add(1, std::memory_order_relaxed); }
  // True: that was the last one. Who takes it away sees what all others wrote: release, then
  // acquire.
  bool count_one_less() noexcept { return references.fetch_sub(1, std::memory_order_acq_rel) == 1; }

  std::atomic<int> references{1};

 protected:
  ~Counted() = default;
};

template <class T>
void retain(T* object) noexcept {
  object->count_one_more();
}

template <class T>
void release(T* object) {
  if (object->count_one_less()) delete object;
}

// One of the references to an object, or none.
template <class T>
class Reference {
 public:
  Reference() = default;
  // Takes one more.
  explicit Reference(T* object) noexcept : object_{object} {
    if (object != nullptr) retain(object);
  }
  // Takes over the one that is there.
  static Reference adopt(T* object) noexcept {
    Reference own;
    own.object_ = object;
    return own;
  }
  Reference(const Reference& other) noexcept : Reference{other.object_} {}
  Reference(Reference&& other) noexcept : object_{std::exchange(other.object_, nullptr)} {}
  Reference& operator=(Reference other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Reference() {
    if (object_ != nullptr) mpi::release(object_);
  }

  T* get() const noexcept { return object_; }
  T* operator->() const noexcept { return object_; }
  T& operator*() const noexcept { return *object_; }
  explicit operator bool() const noexcept { return object_ != nullptr; }
  // The caller has it now: a handle, for example.
  T* release() noexcept { return std::exchange(object_, nullptr); }

 private:
  T* object_ = nullptr;
};

// A new object.
template <class T, class... Arguments>
Reference<T> make(Arguments&&... arguments) {
  return Reference<T>::adopt(new T(std::forward<Arguments>(arguments)...));
}

// Memory of the objects of one kind. It goes to others of that kind, and never back: whoever looks
// at an object by a handle that was freed finds it without handles as long as it lives on, then
// zeros, or another object.
class KeptMemory {
 public:
  void* take(std::size_t bytes) {
    const std::lock_guard lock{mutex_};
    if (free_.empty()) {
      if (all_.size() == all_.capacity()) all_.reserve(2 * all_.size() + 1);
      free_.reserve(all_.capacity());  // give needs no more then
      return all_.emplace_back(::operator new(bytes));
    }
    void* const memory = free_.back();
    free_.pop_back();
    return memory;
  }
  void give(void* memory, std::size_t bytes) noexcept {
    std::memset(memory, 0, bytes);
    const std::lock_guard lock{mutex_};
    free_.push_back(memory);
  }
  // Of objects, and where there is none zeros.
  template <class Visit>
  void for_each(const Visit& visit) {
    const std::lock_guard lock{mutex_};
    for (void* const memory : all_) visit(memory);
  }

 private:
  std::mutex mutex_;
  std::vector<void*> all_;
  std::vector<void*> free_;
};

// An object that a program may have handles of: handle_for_program gives each. When they are freed
// they are handles of nothing, although the object may live on in what uses it.
template <class T>
struct Handled : Counted {
  std::atomic<int> handles{0};
  static constexpr int handles_max = (1 << 30) - 1;  // bits above are the kind's own

  bool has_handle() const noexcept {
    return (handles.load(std::memory_order_relaxed) & handles_max) != 0;
  }
  bool has_several_handles() const noexcept {
    return (handles.load(std::memory_order_relaxed) & handles_max) > 1;
  }
  void count_handle() noexcept { handles.fetch_add(1, std::memory_order_relaxed); }
  void uncount_handle() noexcept { handles.fetch_sub(1, std::memory_order_relaxed); }
  // Of all objects of the kind.
  static void forget_handles() {
    kept_memory().for_each([](void* memory) { static_cast<T*>(memory)->handles = 0; });
  }

  static void* operator new(std::size_t bytes) { return kept_memory().take(bytes); }
  static void operator delete(void* memory, std::size_t bytes) noexcept {
    kept_memory().give(memory, bytes);
  }

 protected:
  ~Handled() = default;

 private:
  static KeptMemory& kept_memory() {
    static auto* const memory = new KeptMemory;  // objects may go after all that is static
    return *memory;
  }
};

// Of a handle that is no small number: null where it was freed.
template <class T, class Handle>
T* object_of(Handle handle) noexcept {
  T* const object = reinterpret_cast<T*>(handle);
  return object->has_handle() ? object : nullptr;
}

// The program frees its handle.
template <class T>
void take_back(T& object) {
  object.uncount_handle();
  release(&object);
}

// A handle of the object, which the program will free.
template <class T>
auto handle_for_program(Reference<T> object) noexcept {
  object->count_handle();
  return object.release()->handle();
}

// A handle of the object for as long as a function of the program's runs with it: the program may
// have freed its own. The function may free this one, too, and the object lives on until here.
template <class T>
class LentHandle {
 public:
  explicit LentHandle(T& object) noexcept : object_{&object} {
    handle_for_program(Reference<T>{object_});
  }
  LentHandle(const LentHandle&) = delete;
  LentHandle& operator=(const LentHandle&) = delete;
  ~LentHandle() {
    if (object_->has_handle()) take_back(*object_);
  }

 private:
  const Reference<T> object_;
};

// Predefined handles are small numbers; all others are the addresses of their objects.
constexpr std::uintptr_t predefined_handles = 4096;
template <class Handle>
std::uintptr_t number_of(Handle handle) noexcept {
  return reinterpret_cast<std::uintptr_t>(handle);
}
template <class Handle>
bool is_predefined(Handle handle) noexcept {
  return number_of(handle) < predefined_handles;
}

}  // namespace qpmesh::mpi
