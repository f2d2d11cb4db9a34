// SPDX-License-Identifier: MIT
#include "base/cpu_copy.hpp"

#include <cstdint>

#include "base/cpu.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace qpmesh::base {

#if defined(__x86_64__)

namespace {

// So many bytes to where the next line begins; 0 where one does.
std::size_t bytes_to_line(const void* address) noexcept {
  return -reinterpret_cast<std::uintptr_t>(address) & (cache_line_bytes - 1);
}

// The two ends by unaligned stores, and between them whole lines: steps that begin in the middle of
// one took up to twice as long (Emerald Rapids).
[[gnu::target("avx2")]] void copy_by_avx2(std::byte* target, const std::byte* source,
                                          std::size_t bytes) noexcept {
  constexpr std::size_t step = 4 * sizeof(__m256i);
  const auto* const head = reinterpret_cast<const __m256i*>(source);
  const auto* const tail = reinterpret_cast<const __m256i*>(source + bytes - step);
  auto* const head_target = reinterpret_cast<__m256i*>(target);
  auto* const tail_target = reinterpret_cast<__m256i*>(target + bytes - step);
  for (int i = 0; i < 2; ++i) _mm256_storeu_si256(head_target + i, _mm256_loadu_si256(head + i));
  for (std::size_t at = bytes_to_line(target); at + step <= bytes; at += step) {
    const auto* const from = reinterpret_cast<const __m256i*>(source + at);
    auto* const to = reinterpret_cast<__m256i*>(target + at);
    const __m256i first = _mm256_loadu_si256(from);
    const __m256i second = _mm256_loadu_si256(from + 1);
    const __m256i third = _mm256_loadu_si256(from + 2);
    const __m256i fourth = _mm256_loadu_si256(from + 3);
    _mm256_store_si256(to, first);
    _mm256_store_si256(to + 1, second);
    _mm256_store_si256(to + 2, third);
    _mm256_store_si256(to + 3, fourth);
  }
  for (int i = 0; i < 4; ++i) _mm256_storeu_si256(tail_target + i, _mm256_loadu_si256(tail + i));
}

// Is our loop as fast as memcpy here, or faster?
bool loop_is_fast(const void* target, const void* source, std::size_t bytes) noexcept {
  constexpr std::size_t page_bytes = 4096;
  constexpr std::size_t memcpy_bytes_min = page_bytes;  // on Intel's processors
  if (!__builtin_cpu_supports("avx2")) return false;
  if (!__builtin_cpu_is("intel") || bytes < memcpy_bytes_min) return true;
  const std::size_t behind =
      (reinterpret_cast<std::uintptr_t>(target) - reinterpret_cast<std::uintptr_t>(source)) %
      page_bytes;
  return behind > 0 && behind < cache_line_bytes;
}

}  // namespace

void copy_by_vectors(void* target, const void* source, std::size_t bytes) noexcept {
  if (loop_is_fast(target, source, bytes)) {
    copy_by_avx2(static_cast<std::byte*>(target), static_cast<const std::byte*>(source), bytes);
  } else {
    std::memcpy(target, source, bytes);
  }
}

void copy_streaming(void* target, const void* source, std::size_t bytes) noexcept {
  auto* const to = static_cast<std::byte*>(target);
  const auto* const from = static_cast<const std::byte*>(source);
  // Whole lines leave the core at once; parts of one would be read, changed and written.
  std::size_t at = bytes_to_line(target);
  if (bytes < at + cache_line_bytes) return copy_bytes(target, source, bytes);
  if (at > 0) std::memcpy(to, from, at);
  for (; at + cache_line_bytes <= bytes; at += cache_line_bytes) {
    const auto* const read = reinterpret_cast<const __m128i*>(from + at);
    auto* const written = reinterpret_cast<__m128i*>(to + at);
    const __m128i first = _mm_loadu_si128(read);
    const __m128i second = _mm_loadu_si128(read + 1);
    const __m128i third = _mm_loadu_si128(read + 2);
    const __m128i fourth = _mm_loadu_si128(read + 3);
    _mm_stream_si128(written, first);
    _mm_stream_si128(written + 1, second);
    _mm_stream_si128(written + 2, third);
    _mm_stream_si128(written + 3, fourth);
  }
  if (at < bytes) std::memcpy(to + at, from + at, bytes - at);
  _mm_sfence();
}

#else

void copy_by_vectors(void* target, const void* source, std::size_t bytes) noexcept {
  std::memcpy(target, source, bytes);
}

void copy_streaming(void* target, const void* source, std::size_t bytes) noexcept {
  copy_bytes(target, source, bytes);
}

#endif

}  // namespace qpmesh::base
