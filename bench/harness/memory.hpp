// SPDX-License-Identifier: MIT
// The memory that a benchmark sends from and receives into, of the kind that --buffers names.
#pragma once

#include <cstddef>
#include <span>

#include "bench/harness/pages.hpp"
#include "bench/harness/settings.hpp"
#include "qpmesh/communicator.hpp"

namespace qpmesh::bench {

// Its first element lies offset_bytes behind the start of a page. Collective, because
// Communicator::allocate is.
template <class T>
class Array {
 public:
  Array(Communicator& world, BufferKind kind, std::size_t count, std::size_t offset_bytes = 0)
      : count_{count}, skipped_{offset_bytes / sizeof(T)} {
    if (kind == BufferKind::allocated) {
      allocated_ = world.allocate<T>(skipped_ + count);
    } else {
      private_ = make_pages<T>(skipped_ + count);
    }
  }

  std::span<T> span() const noexcept {
    return {(private_ ? private_.get() : allocated_.data()) + skipped_, count_};
  }
  std::span<const T> view() const noexcept { return span(); }
  std::span<std::byte> bytes() const noexcept { return std::as_writable_bytes(span()); }

 private:
  std::size_t count_;
  std::size_t skipped_;  // elements before the first
  Buffer<T> allocated_;
  Pages<T> private_;
};

}  // namespace qpmesh::bench
