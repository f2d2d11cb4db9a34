// SPDX-License-Identifier: MIT
// The least that two cores must do to agree: store to a cache line of one's own, load the
// others'. Nothing that exchanges data through shared memory is faster, so these are the
// limits that small messages are held against.
#pragma once

#include <sched.h>

#include <atomic>
#include <cstdint>

#include "base/cpu.hpp"

namespace qpmesh::bench {

// One rank's line pair. Two, because a fast rank may publish round k+1 while a slow one still reads
// round k; it cannot reach k+2 before the slow one has published k+1 and thus read k. 128 bytes:
// the adjacent-line prefetcher works in pairs.
struct FlagLine {
  struct alignas(128) Slot {
    std::atomic<std::uint64_t> word{
        0};  // round in the high half, value in the low; written by its owner, read by all
  };
  Slot slots[2];
};

// Yields after so many looks: with more ranks than cores the awaited rank may need this very core.
inline std::uint32_t await_round(const FlagLine& line, std::uint32_t round,
                                 unsigned looks_per_yield) noexcept {
  const auto& word = line.slots[round % 2].word;
  for (unsigned looks = 1;; ++looks) {
    // Acquire pairs with the owner's release: what it wrote before is visible.
    const std::uint64_t seen = word.load(std::memory_order_acquire);
    if (seen >> 32 == round) return static_cast<std::uint32_t>(seen);
    if (looks % looks_per_yield == 0) {
      ::sched_yield();
    } else {
      base::cpu_pause();
    }
  }
}

inline void publish(FlagLine& line, std::uint32_t round, std::uint32_t value) noexcept {
  line.slots[round % 2].word.store(std::uint64_t{round} << 32 | value, std::memory_order_release);
}

// A 4-byte allreduce: everyone publishes, everyone reads everyone. Rounds count from 1.
inline std::uint32_t flag_allreduce(FlagLine* lines, int rank, int ranks, std::uint32_t round,
                                    std::uint32_t value, unsigned looks_per_yield) noexcept {
  publish(lines[rank], round, value);
  std::uint32_t sum = 0;
  for (int peer = 0; peer < ranks; ++peer)
    sum += peer == rank ? value : await_round(lines[peer], round, looks_per_yield);
  return sum;
}

// One round trip between two lines: the first speaks, the second answers.
inline void flag_ping_pong(FlagLine& mine, const FlagLine& theirs, bool speaks_first,
                           std::uint32_t round, unsigned looks_per_yield) noexcept {
  if (speaks_first) publish(mine, round, round);
  await_round(theirs, round, looks_per_yield);
  if (!speaks_first) publish(mine, round, round);
}

}  // namespace qpmesh::bench
