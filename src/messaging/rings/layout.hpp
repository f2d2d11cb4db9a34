// SPDX-License-Identifier: MIT
// Where a peer's rings lie in an arena: one slab of equal slots, one per rank, so
// that one base address tells a peer everything.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.hpp"
#include "messaging/rings/credits.hpp"
#include "messaging/rings/record.hpp"
#include "transport/rail_notice.hpp"

namespace qpmesh::messaging {

// Of a stream: worth its record, and short enough that both ends copy at once.
inline constexpr std::size_t segment_bytes_limit = std::size_t{16} << 10;

// Of what lies behind another for each peer. An odd number of pages: what is polled of different
// peers does not fall on the same cache sets.
constexpr std::size_t in_odd_pages(std::size_t bytes) noexcept {
  constexpr std::size_t page_bytes = 4096;
  return (base::round_up(bytes, page_bytes) / page_bytes | 1) * page_bytes;
}

// A slot holds what one peer writes to us: its records, its payloads, and the
// credits it returns for what we sent to it.
struct RingLayout {
  static constexpr std::size_t records_offset = 0;
  static constexpr std::size_t credit_cell_offset = record_ring_lines * line_bytes;
  // A guard for the part of a message that the sender copies: ours, in the line behind the cell.
  static constexpr std::size_t fill_guard_offset = credit_cell_offset + line_bytes;
  // What we wait for of this peer's (rings/ready_receive.hpp), in the same line.
  static constexpr std::size_t ready_receive_offset = fill_guard_offset + 8;
  // Words by which two rails agree, in the same line.
  static constexpr std::size_t rail_notice_offset = fill_guard_offset + 16;
  // Behind those words: how often the peer has taken memory back (SendRing::tell_revokes).
  static constexpr std::size_t revokes_offset = rail_notice_offset + transport::rail_notice_bytes;
  static constexpr std::size_t payload_offset =
      credit_cell_offset + 128;  // the cell has its own pair of lines

  std::uint32_t payload_ring_units = 0;

  // Where a device reads sources until they are written. Half a payload ring: two eager messages
  // and a few records on their way.
  std::size_t staging_bytes() const noexcept { return payload_ring_units * unit_bytes / 2; }
  // Messages that one peer may have sent and we not yet taken: each takes a line, or the units of a
  // record with its payload.
  std::uint32_t messages_max() const noexcept { return record_ring_lines + gathered_max(); }
  // Immediates that one peer may have sent and we not yet taken, by how records come without
  // payload and with it. A peer of this version never has more under way, whatever the program
  // does: who takes none for minutes meets no empty receive queue at its end. Each message may be
  // one. Where records come so, counts of credits do, too: of lines and of units, each only when it
  // has grown, so not more often than the peer takes messages of ours that it may be sent, and once
  // more when a rail has failed.
  std::uint32_t immediates_max(transport::Notification small,
                               transport::Notification medium) const noexcept {
    using transport::Notification;
    if (small == Notification::immediate) return 2 * (messages_max() + 1);
    return medium == Notification::immediate ? gathered_max() : 0;
  }

  std::size_t slot_bytes() const noexcept {
    return in_odd_pages(payload_offset + payload_ring_units * unit_bytes);
  }
  std::size_t slab_bytes(int rank_count) const noexcept {
    return slot_bytes() * static_cast<std::size_t>(rank_count);
  }
  std::uint64_t slot_offset(int rank) const noexcept {
    return slot_bytes() * static_cast<std::uint64_t>(rank);
  }

 private:
  std::uint32_t gathered_max() const noexcept { return payload_ring_units / gathered_units_min; }
};

}  // namespace qpmesh::messaging
