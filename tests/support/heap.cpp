#include "support/heap.hpp"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

constexpr std::uint64_t never = ~std::uint64_t{0};
std::atomic<std::uint64_t> allocations{0};
std::atomic<std::uint64_t> fails_at{never};
std::atomic<bool> has_fired{false};

void count_and_maybe_fail() {
  if (allocations.fetch_add(1, std::memory_order_relaxed) ==
      fails_at.load(std::memory_order_relaxed)) {
    has_fired = true;
    throw std::bad_alloc{};
  }
}

}  // namespace

// Not inlined: gcc 12 takes what it sees of them for a mismatch of new and free.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  count_and_maybe_fail();
  if (void* const memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc{};
}
[[gnu::noinline]] void* operator new(std::size_t bytes, std::align_val_t alignment) {
  count_and_maybe_fail();
  const auto unit = static_cast<std::size_t>(alignment);
  if (void* const memory = std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit))
    return memory;
  throw std::bad_alloc{};
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace qpmesh::test {

std::uint64_t heap_allocations() noexcept { return allocations.load(std::memory_order_relaxed); }

FailingAllocation::FailingAllocation(std::uint64_t index) noexcept {
  has_fired = false;
  fails_at = allocations + index;
}
FailingAllocation::~FailingAllocation() { fails_at = never; }
bool FailingAllocation::fired() noexcept { return has_fired; }

}  // namespace qpmesh::test
