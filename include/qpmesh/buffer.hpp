// Memory that peers can reach without a copy.
#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

namespace qpmesh {

namespace context {
class Allocation;
}

// count elements of zeroed memory in this rank's arena, 128-byte aligned. Made by
// Communicator::allocate (collective); freed when the last Buffer and the last operation using it
// are gone. A contiguous range: every call that takes data takes a Buffer, or any part of one: the
// library recognises the address.
template <class T>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  using value_type = T;  // what there is count times

  // Empty; allocate makes the others.
  Buffer() noexcept = default;
  Buffer(std::shared_ptr<context::Allocation> allocation, T* data, std::size_t count) noexcept
      : allocation_{std::move(allocation)}, data_{data}, count_{count} {}

  // The memory. A Buffer is a handle: const or not, its elements can be written.
  T* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return count_; }
  T* begin() const noexcept { return data_; }
  T* end() const noexcept { return data_ + count_; }
  T& operator[](std::size_t index) const noexcept { return data_[index]; }

 private:
  std::shared_ptr<context::Allocation> allocation_;
  T* data_ = nullptr;
  std::size_t count_ = 0;
};

}  // namespace qpmesh
