// SPDX-License-Identifier: MIT
// How a rank of a node stores what the others read.
#pragma once

#include <cstddef>
#include <cstdint>

#include "collectives/group.hpp"
#include "collectives/node/work.hpp"

namespace qpmesh::collectives {

// As anything else, or past the core's own caches: that wins where cores have no cache in common,
// and for more than their own caches hold, by 2 to 6 times (measured on Zen 4, where the host moves
// the cores about); while they share one it loses up to a half. Rows of either are tried in turn.
enum class Stores : std::uint8_t { cached, streaming };

// Rows that stage are not meant for shorter vectors: one_shot stores them beside their flag, or
// near it, with the least that there is to do.
inline constexpr std::size_t staged_from_bytes = std::size_t{1} << 10;

// Seen by whoever sees a step that this rank comes to later.
template <Stores stores>
void stage_copy(const Group& group, std::byte* target, const std::byte* source, std::size_t bytes) {
  if constexpr (stores == Stores::streaming) group.copy_streaming(target, source, bytes);
  else group.copy(target, source, bytes);
}

// Work that is written down for ordinary stores. What passes the caches by crosses from no core to
// another one: it goes to memory, and comes from there.
template <Stores stores>
CoreWork stored(CoreWork work) noexcept {
  if constexpr (stores == Stores::streaming) {
    work.past = work.give + work.take + work.parts;
    work.give = work.take = work.parts = 0;
  }
  return work;
}

}  // namespace qpmesh::collectives
