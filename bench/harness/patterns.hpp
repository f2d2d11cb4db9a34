// SPDX-License-Identifier: MIT
// Who sends what to whom in the programs of messages: ours and the peers' do the same.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

namespace qpmesh::bench {

// Messages of so many bytes in flight at once.
inline std::size_t window_of(std::size_t bytes) {
  constexpr std::size_t window_bytes_max = std::size_t{4} << 20;
  return std::clamp<std::size_t>(window_bytes_max / std::max<std::size_t>(bytes, 1), 2, 64);
}

// A halo: every rank sends a few messages to each of its six neighbours, those up to three ranks
// away on a ring. With few ranks some are the same, or the rank itself.
inline constexpr std::size_t halo_messages_each = 4;
inline constexpr std::array halo_distances{1, -1, 2, -2, 3, -3};
inline constexpr std::size_t halo_messages = halo_distances.size() * halo_messages_each;
inline int halo_destination(std::size_t message, int rank, int size) {
  return ((rank + halo_distances[message / halo_messages_each]) % size + size) % size;
}
inline int halo_source(std::size_t message, int rank, int size) {
  return ((rank - halo_distances[message / halo_messages_each]) % size + size) % size;
}

}  // namespace qpmesh::bench
