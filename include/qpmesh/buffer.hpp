// SPDX-License-Identifier: MIT
// Memory that peers can reach without a copy.
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>

#include "qpmesh/detail/standard.hpp"
#include "qpmesh/export.h"

namespace qpmesh {

namespace context {
class Allocation;
}

class Communicator;

namespace detail {

QPMESH_API const void* view_of(const context::Allocation* allocation, int rank);

}  // namespace detail

// count elements of zeroed memory in this rank's arena, 128-byte aligned. Made by
// Communicator::allocate (collective) and allocate_here (by this rank alone); freed when the last
// Buffer and the last operation using it are gone. A contiguous range: every call that takes data
// takes a Buffer, or any part of one: the library recognises the address.
template <class T>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  using value_type = T;  // what there is count times

  // Empty; allocate makes the others.
  Buffer() noexcept = default;

  // The memory. A Buffer is a handle: const or not, its elements can be written.
  T* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return count_; }
  T* begin() const noexcept { return data_; }
  T* end() const noexcept { return data_ + count_; }
  T& operator[](std::size_t index) const noexcept { return data_[index]; }
  // The Buffer that a rank of the communicator got from the same call of allocate, where it shares
  // memory with this one. What it wrote is there after a barrier, or a message from it, that
  // follows; it lasts as long as that rank's. Error{bad_argument}: no such rank, a rank that shares
  // no memory with this one, a Buffer of this rank alone.
  std::span<const T> view_of(int rank) const {
    return {static_cast<const T*>(detail::view_of(allocation_.get(), rank)), count_};
  }

 private:
  friend class Communicator;

  Buffer(std::shared_ptr<context::Allocation> allocation, T* data, std::size_t count) noexcept
      : allocation_{std::move(allocation)}, data_{data}, count_{count} {}

  std::shared_ptr<context::Allocation> allocation_;
  T* data_ = nullptr;
  std::size_t count_ = 0;
};

}  // namespace qpmesh
