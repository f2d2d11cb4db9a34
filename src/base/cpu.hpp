// SPDX-License-Identifier: MIT
// The few instructions that C++ has no word for.
#pragma once

#include <atomic>
#include <cstddef>

namespace qpmesh::base {

inline constexpr std::size_t cache_line_bytes = 64;

// Tells the core that this is a spin loop.
inline void cpu_pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Asks for the line that address lies in, to be read soon. In assembly: gcc 12 takes a function
// that has only __builtin_prefetch for one that does nothing, and drops its calls.
inline void prefetch(const void* address) noexcept {
#if defined(__x86_64__)
  asm volatile("prefetcht0 %0" : : "m"(*static_cast<const char*>(address)));
#elif defined(__aarch64__)
  asm volatile("prfm pldl1keep, [%0]" : : "r"(address));
#else
  __builtin_prefetch(address);
#endif
}

// The same, to be written soon: what other cores hold of it goes before it is needed here.
inline void prefetch_for_write(void* address) noexcept {
#if defined(__x86_64__)
  // Not in the baseline that gcc assumes; nothing where the CPU lacks it.
  asm volatile("prefetchw %0" : : "m"(*static_cast<char*>(address)));
#elif defined(__aarch64__)
  asm volatile("prfm pstl1keep, [%0]" : : "r"(address));
#else
  __builtin_prefetch(address, 1);
#endif
}

// Loads before this come before loads after it; stores, before stores. ThreadSanitizer has no word
// for fences: under it, a test of what they protect proves nothing either way.
inline void order_loads() noexcept {
#if !defined(__SANITIZE_THREAD__)
  std::atomic_thread_fence(std::memory_order_acquire);
#endif
}
inline void order_stores() noexcept {
#if !defined(__SANITIZE_THREAD__)
  std::atomic_thread_fence(std::memory_order_release);
#endif
}

}  // namespace qpmesh::base
