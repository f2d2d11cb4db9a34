// SPDX-License-Identifier: MIT
// Where the bytes of an element lie: runs, and loops around them. A vector is one loop, however
// long, so that its elements move in a loop of the processor's and not in a list's.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace qpmesh::mpi {

struct Loop;
// In the order in which its bytes are packed.
using Layout = std::vector<Loop>;

// count times, stride bytes apart: a run of bytes, or a layout that has so many bytes.
struct Loop {
  std::ptrdiff_t offset = 0;
  std::size_t count = 1;
  std::ptrdiff_t stride = 0;
  std::size_t bytes = 0;                 // of one time
  std::shared_ptr<const Layout> body{};  // null: a run

  std::size_t bytes_all() const noexcept { return count * bytes; }
  bool is_run() const noexcept { return body == nullptr && count == 1; }
};

// A layout, once.
Loop once(const std::shared_ptr<const Layout>& layout);
// The same so many times, stride bytes apart. What lies in one piece, or goes on as evenly as it
// began, is one loop still.
Loop repeated(Loop loop, std::size_t count, std::ptrdiff_t stride);
// Behind what is packed before it; a loop that goes on where the last one ends makes it longer.
void append(Layout& layout, Loop loop);

// Elements, extent bytes apart, of which each has this layout; packed, they lie one behind the
// other. Their first so many bytes are copied.
void gather(const Layout& layout, const std::byte* data, std::ptrdiff_t extent, std::size_t bytes,
            std::byte* packed);
void scatter(const Layout& layout, std::byte* data, std::ptrdiff_t extent, std::size_t bytes,
             const std::byte* packed);

}  // namespace qpmesh::mpi
