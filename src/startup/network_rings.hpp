// SPDX-License-Identifier: MIT
// How long the rings of links over verbs and tcp are.
#pragma once

#include <cstdint>

namespace qpmesh::startup {

// Up to so many peers each has a ring of the length that the options say: over verbs, where rings
// are pinned, and over tcp, where they cost when messages lie there.
inline constexpr std::int64_t full_verbs_rings_max = 16;
inline constexpr std::int64_t full_tcp_rings_max = 64;
// Shorter ones would save little beside the 8 KiB of records that each pair has anyway.
inline constexpr std::int64_t shrunk_ring_bytes_min = 8 << 10;

// Bytes of the payload ring of each pair where the rank with the most peers has so many:
// wanted_bytes, halved until all rings of that rank together are no longer than full_rings_max of
// the wanted length, but not below 8 KiB, or below what is wanted where that is less. wanted_bytes:
// a power of two; so is the result. Both ends of a pair must use the same: peers is a number that
// all ranks know alike.
constexpr std::int64_t ring_bytes_for(std::int64_t peers, std::int64_t wanted_bytes,
                                      std::int64_t full_rings_max) noexcept {
  std::int64_t bytes = wanted_bytes;
  while (bytes > shrunk_ring_bytes_min && bytes * peers > wanted_bytes * full_rings_max) bytes /= 2;
  return bytes;
}

}  // namespace qpmesh::startup
