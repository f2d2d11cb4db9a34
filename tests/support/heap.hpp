// SPDX-License-Identifier: MIT
// Every operator new of a program that links heap.cpp is counted, and one of them can be made to
// fail.
#pragma once

#include <cstdint>

namespace qpmesh::test {

std::uint64_t heap_allocations() noexcept;
std::int64_t heap_blocks() noexcept;  // that are allocated now

// The allocation with this index from now on, counted from 0, throws std::bad_alloc; those after it
// succeed. While it lives.
class FailingAllocation {
 public:
  explicit FailingAllocation(std::uint64_t index) noexcept;
  ~FailingAllocation();
  FailingAllocation(const FailingAllocation&) = delete;
  FailingAllocation& operator=(const FailingAllocation&) = delete;

  static bool fired() noexcept;  // the last one
};

}  // namespace qpmesh::test
