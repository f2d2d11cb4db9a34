// SPDX-License-Identifier: MIT
#include "support/heap.hpp"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

constexpr std::uint64_t never = ~std::uint64_t{0};
std::atomic<std::uint64_t> allocations{0};
std::atomic<std::int64_t> blocks{0};
std::atomic<std::uint64_t> fails_at{never};
std::atomic<bool> has_fired{false};

void count_and_maybe_fail() {
  if (allocations.fetch_add(1, std::memory_order_relaxed) ==
      fails_at.load(std::memory_order_relaxed)) {
    has_fired = true;
    throw std::bad_alloc{};
  }
}

void* counted(void* memory) {
  if (memory == nullptr) throw std::bad_alloc{};
  blocks.fetch_add(1, std::memory_order_relaxed);
  return memory;
}
void release(void* memory) noexcept {
  if (memory != nullptr) blocks.fetch_sub(1, std::memory_order_relaxed);
  std::free(memory);
}

}  // namespace

// Not inlined: gcc 12 takes what it sees of them for a mismatch of new and free.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  count_and_maybe_fail();
  return counted(std::malloc(bytes == 0 ? 1 : bytes));
}
// What a sanitizer would bring otherwise, beside our delete.
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return ::operator new(bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
[[gnu::noinline]] void* operator new(std::size_t bytes, std::align_val_t alignment) {
  count_and_maybe_fail();
  const auto unit = static_cast<std::size_t>(alignment);
  return counted(std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit));
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { release(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { release(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept { release(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  release(memory);
}

namespace qpmesh::test {

std::uint64_t heap_allocations() noexcept { return allocations.load(std::memory_order_relaxed); }
std::int64_t heap_blocks() noexcept { return blocks.load(std::memory_order_relaxed); }

FailingAllocation::FailingAllocation(std::uint64_t index) noexcept {
  has_fired = false;
  fails_at = allocations + index;
}
FailingAllocation::~FailingAllocation() { fails_at = never; }
bool FailingAllocation::fired() noexcept { return has_fired; }

}  // namespace qpmesh::test
