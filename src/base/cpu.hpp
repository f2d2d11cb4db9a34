// The few instructions that C++ has no word for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

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

// CRC32C (Castagnoli), continued from seed. ISA-L chooses the instruction at
// run time: 13 ns for 48 bytes where measured.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t seed) noexcept;

}  // namespace qpmesh::base
