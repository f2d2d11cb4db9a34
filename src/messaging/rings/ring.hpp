// What the two ends of one direction between two ranks share: receive_ring.hpp and send_ring.hpp. Records lie
// in a ring of lines, medium payloads in a ring of units.
//
// Order: every message of a direction, whichever ring it lands in, takes the next number, and the receiver
// takes them by that number. Ownership: the sender owns a line or unit from the credit that returned it to
// the post that fills it; the receiver from the notification to the credit. Both ends are templates over the
// atomics they touch, so that an explorer of interleavings can run them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/cpu.hpp"
#include "messaging/rings/record.hpp"

namespace qpmesh::messaging {

// Memory that a peer or a device writes while we look.
struct ProcessAtomics {
  // Acquire: what was written before the peer's release store of this word is visible after it.
  static std::uint32_t load_acquire(const std::byte* word) noexcept {
    auto* const value = reinterpret_cast<std::uint32_t*>(const_cast<std::byte*>(word));
    return std::atomic_ref<std::uint32_t>{*value}.load(std::memory_order_acquire);
  }
  static void copy(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    std::memcpy(to, from, bytes);
  }
  static void clear(std::byte* at, std::size_t bytes) noexcept { std::memset(at, 0, bytes); }
};

inline std::uint32_t record_crc(const Record& record, std::uint32_t seed) noexcept {
  const std::size_t covered = record.length() - sizeof(std::uint32_t) - 8;
  return base::crc32c({record.bytes + 8, covered}, seed ^ record.header().sequence);
}

// What the receiver has consumed of the reverse direction, carried by every record.
struct CreditsToReturn {
  std::uint64_t lines = 0;
  std::uint64_t units = 0;
};

}  // namespace qpmesh::messaging
