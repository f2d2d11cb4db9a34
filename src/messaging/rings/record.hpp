// SPDX-License-Identifier: MIT
// A record: the header lines of one message in a ring, and the small payload that rides in it.
//
// Little-endian. It starts on a line, and 8 * length_words bytes are written; what a line has
// behind them means nothing.
//
//  off  size  field
//    0     4  sequence      the flag: 0x80000000 | message number of this direction; never 0
//    4     4  checksum      of [8, length - 4), seeded with epoch, both ranks and sequence
//    8     1  kind
//    9     1  flags
//   10     1  length_words
//   11     1  inline_bytes
//   12     4  consumed      low half of a count of what the writer has consumed (Credits):
//                           of lines if flag_consumed_lines, else of units
//   16     8  communicator
//   24     8  key           what matching compares (matching.hpp)
//   32     8  total_bytes   of the message
//   40     4  signature     of the collective call, or of the elements of a message
//   44     …  body          inline payload, or RendezvousBody, or the payload's place
//  len-4   4  tail          ~sequence
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/bytes.hpp"
#include "transport/transport.hpp"

namespace qpmesh::messaging {

inline constexpr std::size_t line_bytes = 64;
inline constexpr std::uint32_t record_ring_lines = 128;
inline constexpr std::size_t record_lines_max = 4;

enum class RecordKind : std::uint8_t {
  eager_inline = 1,  // payload in the body
  eager_payload,     // payload in the payload ring
  rendezvous,        // request to send: too large for eager
  clear_to_send,     // the answer: where, or "through the payload ring"
  segment,           // part of a pipelined rendezvous, in the payload ring
  finished,          // zero-copy: all bytes are written; pull and read: the source may be reused
  pad,               // skips the rest of the ring
  revoke,            // a target or a source is taken back: write it, or read it, no more
  revoked,           // the answer, behind the last write
  help,              // the receiver copies a first part, and the sender may copy the rest
};
inline constexpr auto record_kind_max = static_cast<std::uint8_t>(RecordKind::help);

enum RecordFlags : std::uint8_t {
  flag_want_credit = 1,       // the writer is short: return credits now
  flag_source_open = 2,       // rendezvous: region and offset name the source, to be loaded
  flag_zero_copy = 4,         // clear_to_send: region and offset name the target
  flag_to_receiver = 8,       // finished: operation is the receiver's number
  flag_source_readable = 16,  // rendezvous: region and offset name the source, for a device to read
  flag_source_private = 32,   // rendezvous: offset is the source's address in the sender's process
  flag_consumed_lines = 64,   // `consumed` counts lines and not units
};

struct RecordHeader {
  std::uint32_t sequence;
  std::uint32_t checksum;
  RecordKind kind;
  std::uint8_t flags;
  std::uint8_t length_words;
  std::uint8_t inline_bytes;
  std::uint32_t consumed;
  std::uint64_t communicator;
  std::uint64_t key;
  std::uint64_t total_bytes;
  std::uint32_t signature;
};
// RecordHeader without the compiler's padding at its end.
inline constexpr std::size_t record_body_offset = 44;
static_assert(offsetof(RecordHeader, signature) + sizeof(std::uint32_t) == record_body_offset);
static_assert(offsetof(RecordHeader, communicator) == 16 &&
              std::is_trivially_copyable_v<RecordHeader>);

// Where a payload begins in the payload ring, in units: an assertion. The body of eager_payload, so
// that its record is one line.
using PayloadPlace = std::uint32_t;

// Body of rendezvous: an offer.
struct OfferBody {
  std::uint32_t sender_operation = 0;  // the sender's number
  std::uint32_t revocations = 0;       // the sender's count of them
  std::uint32_t region = 0;
  std::uint32_t second_region = 0;
  std::uint64_t offset = 0;  // of the source in its region, or its address
  transport::RemoteAddress memory() const noexcept { return {region, offset, second_region}; }
};
static_assert(sizeof(OfferBody) == 24);

// Body of clear_to_send, finished, revoke and revoked.
struct RendezvousBody {
  std::uint32_t sender_operation = 0;    // the sender's number
  std::uint32_t receiver_operation = 0;  // the receiver's number
  std::uint32_t region = 0;
  std::uint32_t second_region = 0;
  std::uint64_t offset = 0;  // of the target in its region
  transport::RemoteAddress memory() const noexcept { return {region, offset, second_region}; }
};
static_assert(sizeof(RendezvousBody) == 24);

// Body of segment.
struct SegmentBody {
  PayloadPlace place = 0;
  std::uint32_t receiver_operation = 0;  // the receiver's number
};
static_assert(sizeof(SegmentBody) == 8 && offsetof(SegmentBody, place) == 0);

// Body of help.
struct HelpBody {
  std::uint32_t sender_operation = 0;
  std::uint32_t number = 0;         // of the guard
  std::uint64_t address = 0;        // of where they go, in the receiver's process
  std::uint64_t guard_address = 0;  // there too
  std::uint64_t begin = 0;          // of the bytes, in the message
  std::uint64_t bytes = 0;
};
static_assert(sizeof(HelpBody) == 40);

// What a sender decides of a header; sequence, checksum, credits and tail are the ring's.
struct RecordFields {
  RecordKind kind;
  std::uint8_t flags = 0;
  std::uint8_t inline_bytes = 0;
  std::size_t body_bytes = 0;
  std::uint64_t communicator = 0;
  std::uint64_t key = 0;
  std::uint64_t total_bytes = 0;
  std::uint32_t signature = 0;
};

inline RecordFields finished_record(std::uint64_t communicator, std::uint8_t flags = 0) noexcept {
  return {.kind = RecordKind::finished,
          .flags = flags,
          .body_bytes = sizeof(RendezvousBody),
          .communicator = communicator};
}

// A record in private memory, as built by the sender and as copied by the receiver.
struct alignas(line_bytes) Record {
  std::byte bytes[record_lines_max * line_bytes];

  RecordHeader& header() noexcept { return *reinterpret_cast<RecordHeader*>(bytes); }
  const RecordHeader& header() const noexcept {
    return *reinterpret_cast<const RecordHeader*>(bytes);
  }
  std::byte* body() noexcept { return bytes + record_body_offset; }
  const std::byte* body() const noexcept { return bytes + record_body_offset; }
  std::size_t length() const noexcept { return std::size_t{header().length_words} * 8; }

  OfferBody offer() const noexcept { return body_as<OfferBody>(); }
  RendezvousBody rendezvous() const noexcept { return body_as<RendezvousBody>(); }
  SegmentBody segment() const noexcept { return body_as<SegmentBody>(); }
  HelpBody help() const noexcept { return body_as<HelpBody>(); }

  // Of eager_payload and segment.
  PayloadPlace place() const noexcept { return body_as<PayloadPlace>(); }
  void set_place(PayloadPlace value) noexcept { std::memcpy(body(), &value, sizeof value); }

 private:
  // The body lies on four bytes only: its fields are copied, never referred to.
  template <class Body>
  Body body_as() const noexcept {
    Body value;
    std::memcpy(&value, body(), sizeof value);
    return value;
  }
};

constexpr std::size_t record_length(std::size_t body_bytes) noexcept {
  return base::round_up(record_body_offset + body_bytes + sizeof(std::uint32_t), 8);
}
constexpr std::uint32_t record_lines(std::size_t length) noexcept {
  return static_cast<std::uint32_t>(base::round_up(length, line_bytes) / line_bytes);
}

// The word with kind, flags and lengths; `consumed` is its upper half.
constexpr std::uint64_t kind_word(const RecordFields& fields) noexcept {
  return static_cast<std::uint64_t>(fields.kind) | std::uint64_t{fields.flags} << 8 |
         std::uint64_t{record_length(fields.body_bytes) / 8} << 16 |
         std::uint64_t{fields.inline_bytes} << 24;
}
inline constexpr std::uint64_t consumed_lines_bit = std::uint64_t{flag_consumed_lines} << 8;

// Starts a record: its header without what the ring fills in, and zeroes where neither body
// nor tail will lie. In words of eight bytes, because what is copied next in words would
// wait for smaller stores to leave the core.
inline void start_record(Record& record, const RecordFields& fields) noexcept {
  const std::size_t length = record_length(fields.body_bytes);
  const auto put = [&](std::size_t offset, std::uint64_t word) {
    std::memcpy(record.bytes + offset, &word, sizeof word);
  };
  put(length - 8, 0);
  put(8, kind_word(fields));
  put(16, fields.communicator);
  put(24, fields.key);
  put(32, fields.total_bytes);
  put(40, fields.signature);  // and four bytes of body or tail, which come later
}

// What a record carries of its writer's credits. In a word, for the same reason.
inline void set_consumed(Record& record, bool lines, std::uint32_t count) noexcept {
  constexpr std::size_t offset = offsetof(RecordHeader, kind);
  std::uint64_t word = 0;
  std::memcpy(&word, record.bytes + offset, sizeof word);
  word = (word & 0xffffffff & ~consumed_lines_bit) | (lines ? consumed_lines_bit : 0) |
         std::uint64_t{count} << 32;
  std::memcpy(record.bytes + offset, &word, sizeof word);
}

// Four lines, but within the 220 bytes that one inline work request of mlx5 carries.
inline constexpr std::size_t record_length_max = 216;
inline constexpr std::size_t record_length_min = record_length(0);
inline constexpr std::size_t inline_bytes_max =
    record_length_max - record_body_offset - sizeof(std::uint32_t);
static_assert(record_length(inline_bytes_max) == record_length_max &&
              record_lines(record_length_max) == record_lines_max);
static_assert(record_length_min == 48);
// Where the record has two lines at most.
inline constexpr std::size_t two_lines_inline_bytes_max =
    2 * line_bytes - record_body_offset - sizeof(std::uint32_t);

inline constexpr std::uint32_t message_number_mask = 0x7fffffff;  // numbers wrap

// Sequence word of the n-th message of a direction: never zero, so that a cleared line is never a
// record.
constexpr std::uint32_t sequence_word(std::uint32_t message_number) noexcept {
  return message_number | 0x80000000U;
}

// Seed of a direction's checksums: a record of another job, another incarnation or another pair
// does not pass.
constexpr std::uint32_t direction_seed(std::uint64_t epoch, int source, int target) noexcept {
  const auto pair = (std::uint64_t{static_cast<std::uint32_t>(source)} << 32) |
                    static_cast<std::uint32_t>(target);
  return static_cast<std::uint32_t>(base::mix64(epoch ^ base::mix64(pair)));
}

}  // namespace qpmesh::messaging
