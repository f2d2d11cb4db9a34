// SPDX-License-Identifier: MIT
// Copies of vectors, at one speed wherever source and target lie.
//
// memcpy copies a few KiB and more by `rep movsb`, which on some processors is 2 to 20 times slower
// where the target lies 1 to 63 bytes behind the source modulo 4096 (measured on Zen 3 and 4): as
// two blocks in a row from malloc do. A loop of vector loads and stores does not care, and was
// nowhere slower there, at any offset, with a source of this core's or of another one's. On Intel's
// processors (measured on Emerald Rapids) the same offsets are slow, by less, and at all others
// memcpy is as fast or faster from 4 KiB on, by up to a third: it does not fetch what it
// overwrites.
#pragma once

#include <cstddef>
#include <cstring>

namespace qpmesh::base {

// Below, memcpy has loops of its own; above, it has stores that pass the caches by.
inline constexpr std::size_t copy_loop_bytes_min = std::size_t{2} << 10;
inline constexpr std::size_t copy_loop_bytes_max = std::size_t{2} << 20;

// Out of line: copy_bytes chooses it. At least copy_loop_bytes_min. By the loop where that is
// faster.
void copy_by_vectors(void* target, const void* source, std::size_t bytes) noexcept;

// As memcpy: the two do not overlap, and no order among the stores is promised.
inline void copy_bytes(void* target, const void* source, std::size_t bytes) noexcept {
  if (bytes >= copy_loop_bytes_min && bytes <= copy_loop_bytes_max) {
    copy_by_vectors(target, source, bytes);
  } else if (bytes > 0) {
    std::memcpy(target, source, bytes);
  }
}

// The same with stores that pass this core's caches by, for what this core does not read again: the
// next reader fetches it from the shared cache or from memory, and no line of the target is fetched
// first. Slower from L1 to L1, faster where the cores share no cache. These stores are behind no
// later one, a release included, until a fence; it ends with one, so that a flag which the caller
// stores afterwards is seen behind the data as after memcpy.
void copy_streaming(void* target, const void* source, std::size_t bytes) noexcept;

}  // namespace qpmesh::base
