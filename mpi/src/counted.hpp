// Objects behind handles: counted, because a program may free a handle while operations, or other
// objects, still use what is behind it.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

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
