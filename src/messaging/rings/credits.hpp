// What a sender may write, and the arithmetic both ends share.
#pragma once

#include <cassert>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/cpu.hpp"

namespace qpmesh::messaging {

inline constexpr std::size_t unit_bytes = 64;  // of the payload ring
// Credits travel modulo 2^16: with half of that in flight an update that is stale by
// as much again is still told from a new one.
inline constexpr std::uint32_t payload_ring_units_max = 1U << 15;

constexpr std::uint32_t units_for(std::size_t bytes) noexcept {
  return static_cast<std::uint32_t>((bytes + unit_bytes - 1) / unit_bytes);
}

// Where payloads lie in a payload ring. A pure function of the lengths in order, so that both ends
// compute the same places without exchanging them. Contiguous: what does not fit before the end skips to
// the start. Positions are cumulative units.
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
  // What comes next lies at the start, where the caches of both ends have it still: for when the whole ring is free.
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

// One cumulative counter that the receiver returns. Updates may be repeated, stale or out of order: one is taken when it lies
// between what is acknowledged and what was sent, so the largest true one wins. Low bits alone may come only in the order in which they
// were written: what is stale by almost a whole turn of them would look new.
class CreditCounter {
 public:
  std::uint64_t in_flight() const noexcept { return sent_ - acknowledged_; }
  std::uint64_t sent() const noexcept { return sent_; }
  std::uint64_t acknowledged() const noexcept { return acknowledged_; }
  void send(std::uint64_t count) noexcept { sent_ += count; }
  template <std::unsigned_integral Low>
  void fold(Low update) noexcept {
    const auto gained = static_cast<Low>(update - static_cast<Low>(acknowledged_));
    if (gained <= in_flight()) acknowledged_ += gained;
  }

 private:
  std::uint64_t sent_ = 0;
  std::uint64_t acknowledged_ = 0;
};

// In the sender's memory, written by the receiver: how credits return when no record goes the other way. It
// consumes no line, so returning credits cannot deadlock. Torn copies fail the CRC and the old value stays.
// The counts are whole: nobody need look at the cell while records carry credits too, and then it is as stale as you like. Records in turn may
// be read long after a cell that was written behind them: what they carry is told from news by next_message alone.
struct CreditCell {
  std::uint32_t generation;    // the completion flag; 0: never written
  std::uint32_t crc;           // CRC32C of the cell with 0 here, seeded like the direction's records
  std::uint32_t lines;         // modulo 2^32
  std::uint32_t next_message;  // of the writer: records before it carry older credits
  std::uint64_t units;
};
static_assert(sizeof(CreditCell) == 24);

inline std::uint32_t credit_crc(CreditCell cell, std::uint32_t seed) noexcept {
  cell.crc = 0;
  return base::crc32c(std::as_bytes(std::span{&cell, 1}), ~seed);
}

// The 32 bits of an immediate: two of kind, thirty of content.
enum class ImmediateKind : std::uint32_t {
  record = 0,   // content: index of the record's first line
  payload = 1,  // content: index of the unit where record and payload begin in the payload ring
  credit = 2,   // content: lines modulo 2^8, units modulo 2^16
};
struct Immediate {
  ImmediateKind kind;
  std::uint32_t content;
};
constexpr std::uint32_t encode(Immediate immediate) noexcept {
  return static_cast<std::uint32_t>(immediate.kind) << 30 | immediate.content;
}
constexpr Immediate decode_immediate(std::uint32_t word) noexcept {
  return {static_cast<ImmediateKind>(word >> 30), word & 0x3fffffffU};
}

}  // namespace qpmesh::messaging
