// SPDX-License-Identifier: MIT
// What a sender may write, and the arithmetic both ends share.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.hpp"

namespace qpmesh::messaging {

inline constexpr std::size_t unit_bytes = 64;  // of the payload ring

constexpr std::uint32_t units_for(std::size_t bytes) noexcept {
  return static_cast<std::uint32_t>((bytes + unit_bytes - 1) / unit_bytes);
}

// Of a record that lies with its payload in the payload ring. At least as many as the shortest
// eager message takes: a shorter segment would only need a receive request more, for each that may
// be under way.
inline constexpr std::uint32_t gathered_units_min = 4;
constexpr std::uint32_t gathered_units(std::uint32_t record_units,
                                       std::size_t payload_bytes) noexcept {
  return std::max(record_units + units_for(payload_bytes), gathered_units_min);
}

// Where payloads lie in a payload ring. A pure function of the lengths in order, so that both ends
// compute the same places without exchanging them. Contiguous: what does not fit before the end
// skips to the start. Positions are cumulative units.
class PayloadCursor {
 public:
  explicit PayloadCursor(std::uint32_t ring_units) noexcept : ring_units_{ring_units} {}

  struct Place {
    std::uint64_t start;  // cumulative, after the skip
    std::uint64_t end;    // cumulative
  };
  // Up to half of the ring fits an empty one wherever the cursor stands, more only from the start.
  Place peek(std::uint32_t units) const noexcept {
    assert(units <= ring_units_);
    const std::uint32_t position = index(next_);
    const std::uint32_t skip = position + units > ring_units_ ? ring_units_ - position : 0;
    return {next_ + skip, next_ + skip + units};
  }
  void advance(const Place& place) noexcept { next_ = place.end; }
  // What comes next lies at the start, where the caches of both ends have it still: for when the
  // whole ring is free.
  void restart() noexcept { origin_ = next_; }
  std::uint32_t index(std::uint64_t cumulative) const noexcept {
    return static_cast<std::uint32_t>(cumulative - origin_) & (ring_units_ - 1);  // a power of two
  }
  std::uint64_t next() const noexcept { return next_; }
  std::uint32_t ring_units() const noexcept { return ring_units_; }

 private:
  std::uint32_t ring_units_;
  std::uint64_t next_ = 0;
  std::uint64_t origin_ = 0;  // lies at the start of the ring
};

// What one end has consumed of what the other has sent, counted since the beginning.
struct Credits {
  std::uint64_t lines = 0;  // of the record ring
  std::uint64_t units = 0;  // of the payload ring
  bool operator==(const Credits&) const = default;
};

// What was sent, and how much of it the receiver has returned. The receiver tells its whole count,
// or so many low bits of it as there is room for. The largest count wins that does not pass what
// was sent: a count may come twice, late, or out of order. Low bits have one meaning because a
// sender that has left the peer's counts unread for half a turn of them reads before it sends more.
class CreditCounter {
 public:
  std::uint64_t in_flight() const noexcept { return sent_ - returned_; }
  std::uint64_t sent() const noexcept { return sent_; }
  std::uint64_t returned() const noexcept { return returned_; }
  void send(std::uint64_t count) noexcept { sent_ += count; }
  template <int bits>
  void take(std::uint64_t told) noexcept {
    static_assert(bits >= bits_min && bits <= 64);
    const std::uint64_t gained = (told - returned_) & (~std::uint64_t{0} >> (64 - bits));
    if (gained <= in_flight()) returned_ += gained;
  }

  // No count that the peer has told until now is unread.
  void note_all_read() noexcept { sent_when_read_ = sent_; }
  bool must_read() const noexcept { return sent_ - sent_when_read_ >= sent_unread_max; }

  static constexpr int bits_min = 30;  // of an immediate
  static constexpr std::uint64_t sent_unread_max = std::uint64_t{1} << (bits_min - 1);

 private:
  std::uint64_t sent_ = 0;
  std::uint64_t returned_ = 0;
  std::uint64_t sent_when_read_ = 0;
};

// The line in the sender's memory where the receiver writes what it has consumed. Writing it takes
// no line of a ring, so returning credits cannot deadlock. Where flags are ordered these are two
// independent words, each stored whole with release and loaded with acquire. Elsewhere the checksum
// proves that a copy is whole; of a torn one nothing is taken.
// It is written over, so it needs writes in order: where records come as immediates, counts do too.
struct CreditCell {
  Credits consumed;
  std::uint32_t checksum = 0;  // over `consumed`, seeded like the direction's records
  std::uint32_t unused = 0;
  bool operator==(const CreditCell&) const = default;
};
static_assert(sizeof(CreditCell) == 24 && offsetof(Credits, units) == 8);

inline std::uint32_t credit_checksum(const Credits& consumed, std::uint32_t seed) noexcept {
  return base::checksum(std::as_bytes(std::span{&consumed, 1}), ~seed);
}

// The 32 bits of an immediate: two of kind, thirty of content.
enum class ImmediateKind : std::uint32_t {
  record = 0,   // content: index of the record's first line
  payload = 1,  // content: index of the unit where record and payload begin in the payload ring
  lines = 2,    // content: low bits of the count of lines that are consumed
  units = 3,    // content: the same of units
};
inline constexpr std::uint32_t immediate_content_max = 0x3fffffff;
struct Immediate {
  ImmediateKind kind;
  std::uint32_t content;
};
constexpr std::uint32_t encode(Immediate immediate) noexcept {
  return static_cast<std::uint32_t>(immediate.kind) << 30 | immediate.content;
}
constexpr Immediate decode_immediate(std::uint32_t word) noexcept {
  return {static_cast<ImmediateKind>(word >> 30), word & immediate_content_max};
}

}  // namespace qpmesh::messaging
