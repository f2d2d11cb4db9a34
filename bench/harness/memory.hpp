// The memory that a benchmark sends from and receives into, of the kind that --buffers names.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>

#include "bench/harness/settings.hpp"
#include "qpmesh/communicator.hpp"

namespace qpmesh::bench {

// Collective, because Communicator::allocate is.
template <class T>
class Array {
 public:
  Array(Communicator& world, Buffers kind, std::size_t count) : count_{count} {
    if (kind == Buffers::allocated) {
      allocated_ = world.allocate<T>(count);
    } else {
      // Page-aligned as in the peers' own benchmarks.
      constexpr std::size_t page_bytes = 4096;
      const std::size_t whole_pages = (count * sizeof(T) + page_bytes - 1) / page_bytes * page_bytes;
      private_.reset(static_cast<T*>(std::aligned_alloc(page_bytes, whole_pages)));
      if (whole_pages > 0 && !private_) throw std::bad_alloc{};
    }
  }

  std::span<T> span() const noexcept { return {private_ ? private_.get() : allocated_.data(), count_}; }
  std::span<const T> view() const noexcept { return span(); }
  std::span<std::byte> bytes() const noexcept { return std::as_writable_bytes(span()); }

 private:
  struct Free {
    void operator()(T* memory) const noexcept { std::free(memory); }
  };

  std::size_t count_;
  Buffer<T> allocated_;
  std::unique_ptr<T, Free> private_;
};

}  // namespace qpmesh::bench
