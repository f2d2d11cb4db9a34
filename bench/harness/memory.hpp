// The memory that a benchmark sends from and receives into, of the kind that --buffers names.
#pragma once

#include <cstddef>
#include <span>

#include "bench/harness/pages.hpp"
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
      private_ = make_pages<T>(count);
    }
  }

  std::span<T> span() const noexcept {
    return {private_ ? private_.get() : allocated_.data(), count_};
  }
  std::span<const T> view() const noexcept { return span(); }
  std::span<std::byte> bytes() const noexcept { return std::as_writable_bytes(span()); }

 private:
  std::size_t count_;
  Buffer<T> allocated_;
  Pages<T> private_;
};

}  // namespace qpmesh::bench
