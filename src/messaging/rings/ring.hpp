// SPDX-License-Identifier: MIT
// What the two ends of one direction between two ranks share: receive_ring.hpp and send_ring.hpp.
// Records lie in a ring of lines, medium payloads in a ring of units.
//
// Order: every message of a direction, whichever ring it lands in, takes the next number, and the
// receiver takes them by that number. Ownership: the sender owns a line or unit from the credit
// that returned it to the post that fills it; the receiver from the notification to the credit.
// Both ends are templates over the atomics they touch, so that an explorer of interleavings can run
// them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomics.hpp"
#include "base/bytes.hpp"
#include "messaging/rings/record.hpp"

namespace qpmesh::messaging {

using base::ProcessAtomics;

inline std::uint32_t record_checksum(const Record& record, std::uint32_t seed) noexcept {
  const std::size_t covered = record.length() - sizeof(std::uint32_t) - 8;
  return base::checksum({record.bytes + 8, covered}, seed ^ record.header().sequence);
}

}  // namespace qpmesh::messaging
