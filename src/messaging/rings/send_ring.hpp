// SPDX-License-Identifier: MIT
// The end of a direction that writes messages into the peer's memory.
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include "base/cpu_copy.hpp"
#include "messaging/mutant.hpp"
#include "messaging/rings/credits.hpp"
#include "messaging/rings/layout.hpp"
#include "messaging/rings/record.hpp"
#include "messaging/rings/ring.hpp"
#include "transport/transport.hpp"

namespace qpmesh::messaging {

// Where a sender's rings lie in the peer's memory, and our own memory for what
// may not leave from where it is.
struct SendPlaces {
  transport::RemoteAddress slot;           // ours, in the peer's slab
  const std::byte* credit_cell = nullptr;  // in our slot for this peer, who writes it
  std::span<std::byte> staging;            // empty where every source may be reused at once
};

template <class Atomics>
class SendRing {
 public:
  // send_seed: of the direction us → peer; the credit cell that the peer writes is sealed with
  // receive_seed.
  SendRing(transport::Connection& connection, const transport::Capabilities& capabilities,
           const SendPlaces& places, RingLayout layout, std::uint32_t send_seed,
           std::uint32_t receive_seed, std::uint32_t first_message = 0) noexcept
      : connection_{connection},
        capabilities_{capabilities},
        places_{places},
        payload_cursor_{layout.payload_ring_units},
        staging_cursor_{static_cast<std::uint32_t>(places.staging.size() / unit_bytes)},
        send_seed_{send_seed},
        receive_seed_{receive_seed},
        next_message_{first_message},
        tells_posted_{connection.completed()},
        mapped_{connection.map(places.slot, layout.slot_bytes())} {
    assert(layout.payload_ring_units <= immediate_content_max);
  }

  static constexpr std::uint32_t lines_fetched_ahead = 8;
  static constexpr std::uint32_t owed_units_divisor = 4;  // so large a part returns by itself
  static constexpr std::size_t fetched_payload_bytes_max = std::size_t{8} << 10;
  // Kept for rendezvous control while data fills the ring: two answers, one of which may have to
  // skip the ring's last line.
  static constexpr std::uint32_t reserved_lines =
      2 * record_lines(record_length(sizeof(RendezvousBody))) + 1;

  enum class Sent : std::uint8_t { posted, no_lines, no_units, busy, failed };
  enum class Priority : std::uint8_t { data, control };

  // Fills in sequence, credits, checksum and tail of the record and posts it with its payload
  // (empty: none). On anything but posted nothing of the record has happened. payload may be reused
  // at once. consumed: of the reverse direction; what the record can tell of it is told.
  Sent send(Record& record, std::span<const std::byte> payload, Priority priority,
            const Credits& consumed) {
    if (must_read()) return Sent::busy;
    const bool gathered =
        !payload.empty() && capabilities_.medium == transport::Notification::immediate;
    return gathered ? send_gathered(record, payload, consumed)
                    : send_record(record, payload, priority, consumed);
  }

  // The same for a whole eager message, or a segment, without a record of ours in between: it is
  // built where it goes. Only where stores() says so. Inlined into who makes the fields, which then
  // need no memory.
  bool stores() const noexcept { return mapped_ != nullptr; }
  // Of kind eager_inline.
  [[gnu::always_inline]] Sent store_inline(const RecordFields& fields,
                                           std::span<const std::byte> payload, Priority priority,
                                           const Credits& consumed) {
    const std::uint32_t lines = record_lines(record_length(fields.body_bytes));
    if (const Sent ready = make_room(lines, priority, consumed); ready != Sent::posted) [[unlikely]]
      return ready;
    std::byte* const line = head_line();
    put(line, record_body_offset - sizeof fields.signature, fields.signature);
    copy_short(line + record_body_offset, payload);
    return publish(line, lines, fields, consumed);
  }
  // Of kind eager_payload or segment. streaming: the payload passes our caches by.
  // receiver_operation: of a segment.
  Sent store(const RecordFields& fields, std::span<const std::byte> payload, Priority priority,
             const Credits& consumed, bool streaming = false,
             std::uint32_t receiver_operation = 0) {
    const std::uint32_t lines = record_lines(record_length(fields.body_bytes));
    if (const Sent ready = make_room(lines, priority, consumed); ready != Sent::posted)
      return ready;
    PayloadCursor cursor = payload_cursor_;
    const PayloadCursor::Place place = next_place(cursor, units_for(payload.size()));
    if (place.end - units_.returned() > usable_units(cursor)) return Sent::no_units;
    const PayloadPlace unit = cursor.index(place.start);
    std::byte* const line = head_line();
    put(line, record_body_offset - sizeof fields.signature,
        fields.signature | std::uint64_t{unit} << 32);
    if (fields.kind == RecordKind::segment)
      put(line, record_body_offset + sizeof(PayloadPlace), receiver_operation);
    std::byte* const target = mapped_ + RingLayout::payload_offset + unit * unit_bytes;
    if (streaming) Atomics::copy_streaming(target, payload.data(), payload.size());
    else Atomics::copy(target, payload.data(), payload.size());
    const Sent sent = publish(line, lines, fields, consumed);
    if (sent != Sent::posted) return sent;
    advance_payload(cursor);
    if (!streaming && payload.size() <= fetched_payload_bytes_max)
      fetch_payload_ahead(payload.size());
    return sent;
  }

  std::uint32_t next_message() const noexcept { return next_message_; }
  // How much payload one message may carry now; 0: none.
  bool has_units(std::size_t payload_bytes) const noexcept {
    const bool gathered = capabilities_.medium == transport::Notification::immediate;
    const std::uint32_t units =
        gathered ? gathered_units(record_lines_max, payload_bytes) : units_for(payload_bytes);
    return payload_cursor_.peek(units).end - units_.returned() <= payload_cursor_.ring_units();
  }
  // Does the peer return units that are short now, whatever its program receives, and without
  // another record of ours? Segments are taken as they come, and a quarter of the ring is returned
  // unasked.
  bool returns_units_soon() const noexcept {
    return segments_end_ >= units_.returned() + payload_cursor_.ring_units() / owed_units_divisor;
  }
  // What was posted last is a segment.
  void note_segment() noexcept { segments_end_ = payload_cursor_.next(); }
  // Of a stream, an eighth of the ring, or less of a long one: the receiver empties one segment
  // while the next ones are on their way. Together with its record where both are one write, so
  // that the power of two is also a packet. A multiple of every element size.
  std::size_t segment_bytes_max() const noexcept {
    const std::size_t eighth =
        std::min(payload_cursor_.ring_units() / 8 * unit_bytes, segment_bytes_limit);
    const bool gathered = capabilities_.medium == transport::Notification::immediate;
    const std::size_t record =
        gathered ? record_lines(record_length(sizeof(SegmentBody))) * line_bytes : 0;
    return eighth > record ? eighth - record : unit_bytes;
  }
  bool has_lines(std::uint32_t lines, Priority priority) const noexcept {
    const std::uint32_t left = record_ring_lines - line_index();
    const std::uint32_t skip = lines > left ? left : 0;
    const bool keeps_reserve = priority == Priority::data && mutant != Mutant::reserved_lines;
    return lines_.in_flight() + skip + lines + (keeps_reserve ? reserved_lines : 0) <=
           record_ring_lines + (mutant == Mutant::ring_size ? 1 : 0);
  }

  // An unordered write into memory the peer opened; told: its completion number, see completed().
  // From where the source is, which stays untouched until then, or through our staging.
  enum class From : std::uint8_t { source, staging };
  Sent write(std::span<const std::byte> source, std::optional<std::uint32_t> source_region,
             transport::RemoteAddress target, From from, std::uint64_t& told) {
    transport::Write write{.head = {},
                           .body = source,
                           .source_region = source_region,
                           .target = target,
                           .immediate = {},
                           .tell = true,
                           .unordered = true};
    PayloadCursor staging = begin_staging();
    const bool stages = from == From::staging && source.size() > capabilities_.inline_bytes_max;
    if (stages && !stage(write, staging)) return Sent::busy;
    const Sent sent = post({&write, 1});
    if (sent != Sent::posted) return sent;
    if (stages) {
      commit_staging(staging, {&write, 1});
    } else {
      ++tells_posted_;
    }
    told = tells_posted_;
    return sent;
  }
  // The peer's bytes into target; told: its completion number.
  Sent read(std::span<std::byte> target, std::optional<std::uint32_t> target_region,
            transport::RemoteAddress source, std::uint64_t& told) {
    switch (connection_.read(target, target_region, source)) {
      case transport::Post::posted: told = ++tells_posted_; return Sent::posted;
      case transport::Post::busy: return Sent::busy;
      case transport::Post::failed: break;
    }
    return Sent::failed;
  }
  // Whether a message whose last piece was told so may post another: a few of each rail are under
  // way at a time, so that what is taken back is soon done with.
  bool has_room_behind(std::uint64_t told) const noexcept {
    const std::uint64_t pieces_max =
        pieces_in_flight_max * static_cast<std::uint64_t>(capabilities_.rails);
    return told < pieces_max || completed(told - (pieces_max - 1));
  }
  // How much one write through the staging may carry.
  std::size_t staged_bytes_max() const noexcept {
    return staging_cursor_.ring_units() / 2 * unit_bytes;
  }
  bool completed(std::uint64_t told) const noexcept { return connection_.completed() >= told; }

  // Behind all that were posted.
  std::uint64_t lines_sent() const noexcept { return lines_.sent(); }
  // Tells the peer what we have consumed, without a record.
  Sent return_credits(const Credits& consumed) {
    const bool immediate = capabilities_.small == transport::Notification::immediate;
    const Sent sent = capabilities_.ordered_flag ? store_credits(consumed)
                      : immediate                ? send_credits(consumed)
                                                 : write_credit_cell(consumed);
    if (sent == Sent::posted) told_ = consumed;
    return sent;
  }
  // Half of the lines or a quarter of the payload ring is the peer's again, and it does not know.
  bool owes(const Credits& consumed) const noexcept {
    return consumed.lines - told_.lines >= record_ring_lines / 2 ||
           consumed.units - told_.units >= payload_cursor_.ring_units() / owed_units_divisor;
  }
  bool has_told(const Credits& consumed) const noexcept { return consumed == told_; }
  // Tells the peer how many records of kind revoke there are, those that find no line yet, too.
  // Takes no line of a ring. It may be lost with a rail, and land out of order where writes do: the
  // peer only spares its connection by it (awaits_revoke).
  Sent tell_revokes(std::uint32_t count) {
    transport::Write write{.head = std::as_bytes(std::span{&count, 1}),
                           .body = {},
                           .target = address(RingLayout::revokes_offset),
                           .flag_offset = 0,
                           .immediate = {}};
    return post_staged({&write, 1});
  }
  // What was told may be lost.
  void forget_told() noexcept { told_ = {}; }

  // Takes what the peer has returned beside its records. A torn cell returns nothing.
  void poll_credits() noexcept {
    if (capabilities_.ordered_flag) {
      // Acquire: the peer has cleared these lines and read these payloads before it stored the
      // counts.
      const auto* const counts = base::word_at<std::uint64_t>(places_.credit_cell);
      lines_.take<64>(Atomics::load_acquire(&counts[0]));
      units_.take<64>(Atomics::load_acquire(&counts[1]));
      return;
    }
    CreditCell cell;
    Atomics::copy_unproven(reinterpret_cast<std::byte*>(&cell), places_.credit_cell, sizeof cell);
    if (cell == seen_cell_ || cell.checksum != credit_checksum(cell.consumed, receive_seed_))
      return;
    seen_cell_ = cell;
    lines_.take<64>(cell.consumed.lines);
    units_.take<64>(cell.consumed.units);
  }
  // Takes what a record of the peer carries.
  void take_credits(const RecordHeader& header) noexcept {
    ((header.flags & flag_consumed_lines) != 0 ? lines_ : units_)
        .template take<32>(header.consumed);
  }
  // Takes what an immediate of the peer tells.
  void take_credits(const Immediate& immediate) noexcept {
    (immediate.kind == ImmediateKind::lines ? lines_ : units_).template take<30>(immediate.content);
  }
  // The peer's records that had arrived are read.
  void note_all_read() noexcept {
    lines_.note_all_read();
    units_.note_all_read();
  }

 private:
  static constexpr std::size_t chain_max = 2;  // payload, record
  static constexpr std::uint64_t pieces_in_flight_max = 4;
  static constexpr std::size_t staged_writes_max = 256;

  struct StagedWrite {
    std::uint64_t end;   // staging is free up to here …
    std::uint64_t told;  // … once this completion has come
  };

  std::uint32_t line_index() const noexcept {
    return static_cast<std::uint32_t>(lines_.sent()) & (record_ring_lines - 1);
  }
  static std::uint32_t usable_units(const PayloadCursor& cursor) noexcept {
    return cursor.ring_units() + (mutant == Mutant::ring_size ? 1 : 0);
  }
  // Most messages are a word: those do not pay for a call.
  static void copy_short(std::byte* to, std::span<const std::byte> bytes) noexcept {
    if (bytes.size() == sizeof(std::uint64_t))
      Atomics::copy(to, bytes.data(), sizeof(std::uint64_t));
    else if (!bytes.empty()) Atomics::copy(to, bytes.data(), bytes.size());
  }
  static void put(std::byte* line, std::size_t offset, std::uint64_t word) noexcept {
    Atomics::store_plain(base::word_at<std::uint64_t>(line + offset), word);
  }
  // For a record that is stored: so many lines in a row from line_index() on.
  Sent make_room(std::uint32_t lines, Priority priority, const Credits& consumed) {
    if (must_read()) return Sent::busy;
    if (!has_lines(lines, priority)) return Sent::no_lines;
    const bool wraps = line_index() + lines > record_ring_lines;
    return wraps ? skip_to_start(consumed) : Sent::posted;
  }
  std::byte* head_line() const noexcept {
    return mapped_ + RingLayout::records_offset + line_index() * line_bytes;
  }
  // What start_record and seal put into words 1 to 4, then the flag; checksum and tail are nobody's
  // to look at.
  Sent publish(std::byte* line, std::uint32_t lines, const RecordFields& fields,
               const Credits& consumed) {
    const bool tells_lines = carries_lines(consumed);
    const auto count = static_cast<std::uint32_t>(tells_lines ? consumed.lines : consumed.units);
    put(line, offsetof(RecordHeader, kind),
        kind_word(fields) | (tells_lines ? consumed_lines_bit : 0) | std::uint64_t{count} << 32);
    put(line, offsetof(RecordHeader, communicator), fields.communicator);
    put(line, offsetof(RecordHeader, key), fields.key);
    put(line, offsetof(RecordHeader, total_bytes), fields.total_bytes);
    if (connection_.publish(line, sequence_word(next_message_)) != transport::Post::posted)
      return Sent::failed;
    ++next_message_;
    lines_.send(lines);
    // Nothing came since the last one: there is a row of them.
    if (consumed.lines == told_.lines) fetch_ahead(lines);
    note_carried(consumed, tells_lines);
    return Sent::posted;
  }
  // The lines of a later message of this length, which the peer has read: each message's flag is
  // stored behind all of it, and would wait until they are back. What the peer has not given back
  // it may not have read.
  void fetch_ahead(std::uint32_t lines) const noexcept {
    if (lines_.in_flight() + lines_fetched_ahead + lines > record_ring_lines) return;
    for (std::uint32_t line = lines_fetched_ahead; line < lines_fetched_ahead + lines; ++line) {
      const std::uint32_t index = (line_index() + line) & (record_ring_lines - 1);
      base::prefetch_for_write(mapped_ + RingLayout::records_offset + index * line_bytes);
    }
  }
  // The same of the place where the next payload of this length goes.
  void fetch_payload_ahead(std::size_t bytes) const noexcept {
    const PayloadCursor::Place place = payload_cursor_.peek(units_for(bytes));
    if (place.end - units_.returned() > payload_cursor_.ring_units()) return;
    std::byte* const target =
        mapped_ + RingLayout::payload_offset + payload_cursor_.index(place.start) * unit_bytes;
    for (std::size_t at = 0; at < bytes; at += line_bytes) base::prefetch_for_write(target + at);
  }
  transport::RemoteAddress address(std::uint64_t offset) const noexcept {
    return places_.slot + offset;
  }

  // Records and immediates tell counts in part.
  bool must_read() const noexcept { return lines_.must_read() || units_.must_read(); }

  // One count of those in the peer's credit cell, as a write of its own.
  transport::Write count_write(std::size_t offset, const std::uint64_t& count) const noexcept {
    return {.head = std::as_bytes(std::span{&count, 1}),
            .body = {},
            .target = address(RingLayout::credit_cell_offset + offset),
            .flag_offset = 0,
            .flag_bytes = sizeof count,
            .immediate = {}};
  }
  Sent store_credits(const Credits& consumed) noexcept {
    const std::array chain{count_write(offsetof(Credits, lines), consumed.lines),
                           count_write(offsetof(Credits, units), consumed.units)};
    return post(chain);
  }
  Sent write_credit_cell(const Credits& consumed) {
    const CreditCell cell{.consumed = consumed, .checksum = credit_checksum(consumed, send_seed_)};
    transport::Write write{.head = std::as_bytes(std::span{&cell, 1}),
                           .body = {},
                           .target = address(RingLayout::credit_cell_offset),
                           .immediate = {}};
    return post_staged({&write, 1});
  }
  // No bytes but the immediates': those of two cells could land mixed.
  Sent send_credits(const Credits& consumed) noexcept {
    std::array<transport::Write, 2> chain;
    std::size_t writes = 0;
    const auto tell = [&](ImmediateKind kind, std::uint64_t count, std::uint64_t told) {
      if (count == told) return;
      const auto content = static_cast<std::uint32_t>(count) & immediate_content_max;
      chain[writes++] = {.head = {},
                         .body = {},
                         .target = address(RingLayout::credit_cell_offset),
                         .immediate = encode({kind, content})};
    };
    tell(ImmediateKind::lines, consumed.lines, told_.lines);
    tell(ImmediateKind::units, consumed.units, told_.units);
    return writes > 0 ? post({chain.data(), writes}) : Sent::posted;
  }

  // Which count a record carries: lines when a quarter of them is owed or no units are.
  bool carries_lines(const Credits& consumed) const noexcept {
    return consumed.lines - told_.lines >= record_ring_lines / 4 || consumed.units == told_.units;
  }
  void note_carried(const Credits& consumed, bool lines) noexcept {
    if (lines) told_.lines = consumed.lines;
    else told_.units = consumed.units;
  }

  void seal(Record& record, std::uint32_t message, const Credits& consumed) const noexcept {
    const std::uint32_t sequence = sequence_word(message);
    const std::uint64_t sequence_without_checksum = sequence;
    std::memcpy(record.bytes, &sequence_without_checksum, sizeof sequence_without_checksum);
    const std::uint32_t tail = ~sequence;
    std::memcpy(record.bytes + record.length() - sizeof tail, &tail, sizeof tail);
    const bool lines = carries_lines(consumed);
    set_consumed(record, lines,
                 static_cast<std::uint32_t>(lines ? consumed.lines : consumed.units));
    if (!capabilities_.ordered_flag && !capabilities_.bytes_in_order)
      record.header().checksum = record_checksum(record, send_seed_);
  }

  transport::Write record_write(const Record& record, std::uint32_t index) const noexcept {
    transport::Write write{.head = {record.bytes, record.length()},
                           .body = {},
                           .target = address(RingLayout::records_offset + index * line_bytes),
                           .flag_offset = 0,
                           .immediate = {},
                           .message = true};
    if (capabilities_.small == transport::Notification::immediate)
      write.immediate = encode({ImmediateKind::record, index});
    return write;
  }

  Sent send_record(Record& record, std::span<const std::byte> payload, Priority priority,
                   const Credits& consumed) {
    const std::uint32_t lines = record_lines(record.length());
    if (!has_lines(lines, priority)) return Sent::no_lines;
    if (line_index() + lines > record_ring_lines) [[unlikely]] {
      const Sent skipped = skip_to_start(consumed);
      if (skipped != Sent::posted) return skipped;
    }
    return payload.empty() ? send_alone(record, lines, consumed)
                           : send_with_payload(record, lines, payload, consumed);
  }

  // What is left of the ring of records is a record of its own.
  Sent skip_to_start(const Credits& consumed) {
    Record pad;
    start_record(pad, {.kind = RecordKind::pad});
    return send_alone(pad, record_ring_lines - line_index(), consumed);
  }

  Sent send_with_payload(Record& record, std::uint32_t lines, std::span<const std::byte> payload,
                         const Credits& consumed) {
    PayloadCursor cursor = payload_cursor_;
    const PayloadCursor::Place place = next_place(cursor, units_for(payload.size()));
    if (place.end - units_.returned() > usable_units(cursor)) return Sent::no_units;
    const std::uint32_t unit = cursor.index(place.start);
    record.set_place(unit);
    seal(record, next_message_, consumed);
    std::array chain{
        transport::Write{.head = {},
                         .body = payload,
                         .target = address(RingLayout::payload_offset + unit * unit_bytes),
                         .immediate = {}},
        record_write(record, line_index())};
    if (mutant == Mutant::flag_order) std::swap(chain[0], chain[1]);
    const Sent sent = post_staged(chain);
    if (sent != Sent::posted) return sent;
    ++next_message_;
    lines_.send(lines);
    advance_payload(cursor);
    note_carried(consumed, carries_lines(consumed));
    return sent;
  }

  // The small message: one write.
  Sent send_alone(Record& record, std::uint32_t lines, const Credits& consumed) {
    seal(record, next_message_, consumed);
    transport::Write write = record_write(record, line_index());
    const std::span<transport::Write> chain{&write, 1};
    const Sent sent =
        record.length() <= capabilities_.inline_bytes_max ? post(chain) : post_staged(chain);
    if (sent != Sent::posted) return sent;
    ++next_message_;
    lines_.send(lines);
    note_carried(consumed, carries_lines(consumed));
    return sent;
  }

  // Record and payload in one write into the payload ring; the immediate is the flag.
  Sent send_gathered(Record& record, std::span<const std::byte> payload, const Credits& consumed) {
    const std::uint32_t head_units = record_lines(record.length());
    PayloadCursor cursor = payload_cursor_;
    const PayloadCursor::Place place =
        next_place(cursor, gathered_units(head_units, payload.size()));
    if (place.end - units_.returned() > cursor.ring_units()) return Sent::no_units;
    const std::uint32_t unit = cursor.index(place.start);
    record.set_place(unit);
    seal(record, next_message_, consumed);
    transport::Write write{.head = {record.bytes, head_units * line_bytes},
                           .body = payload,
                           .target = address(RingLayout::payload_offset + unit * unit_bytes),
                           .immediate = encode({ImmediateKind::payload, unit}),
                           .message = true};
    const Sent sent = post_staged({&write, 1});
    if (sent != Sent::posted) return sent;
    ++next_message_;
    advance_payload(cursor);
    note_carried(consumed, carries_lines(consumed));
    return sent;
  }

  // Takes a place from cursor: in an empty ring at the start, whose lines the caches of both ends
  // have. The receiver, who holds nothing either, sees it by the place in the record, unless the
  // ring's end leads there anyway. Nothing has happened before that record is posted and cursor is
  // ours: another record may be posted instead.
  PayloadCursor::Place next_place(PayloadCursor& cursor, std::uint32_t units) const noexcept {
    PayloadCursor::Place place = cursor.peek(units);
    if (units_.in_flight() == 0 && cursor.index(place.start) != 0) {
      cursor.restart();
      place = cursor.peek(units);
    }
    cursor.advance(place);
    return place;
  }

  void advance_payload(const PayloadCursor& cursor) noexcept {
    units_.send(cursor.next() - payload_cursor_.next());
    payload_cursor_ = cursor;
  }

  Sent post_staged(std::span<transport::Write> chain) {
    if (places_.staging.empty()) return post(chain);
    PayloadCursor staging = begin_staging();
    for (transport::Write& write : chain) {
      if (!stage(write, staging)) return Sent::busy;
    }
    const Sent sent = post(chain);
    if (sent == Sent::posted) commit_staging(staging, chain);
    return sent;
  }

  // Where the staging of a chain begins. At the start when nothing is staged: a chain may take more
  // than half of it, which elsewhere would not fit though all of it is free.
  PayloadCursor begin_staging() noexcept {
    free_staging();
    if (staged_count_ == 0) {
      staging_cursor_.restart();
      staging_free_ = staging_cursor_.next();
    }
    return staging_cursor_;
  }

  // What does not leave inline is copied to staging, because the caller may reuse its memory at
  // once but the device may read it until the completion (and again, when it retransmits). False:
  // staging is full.
  bool stage(transport::Write& write, PayloadCursor& staging) {
    const std::size_t bytes = write.head.size() + write.body.size();
    if (bytes <= capabilities_.inline_bytes_max) return true;
    const PayloadCursor::Place place = staging.peek(units_for(bytes));
    if (place.end - staging_free_ > staging.ring_units() ||
        staged_count_ + chain_max > staged_writes_max)
      return false;
    std::byte* const copy = places_.staging.data() + staging.index(place.start) * unit_bytes;
    base::copy_bytes(copy, write.head.data(), write.head.size());
    base::copy_bytes(copy + write.head.size(), write.body.data(), write.body.size());
    // A flag stays in head: the pieces keep their lengths and are still gathered.
    write.body = {copy + write.head.size(), write.body.size()};
    write.head = {copy, write.head.size()};
    write.tell = true;
    staging.advance(place);
    return true;
  }
  void commit_staging(const PayloadCursor& staging,
                      std::span<const transport::Write> chain) noexcept {
    for (const transport::Write& write : chain) {
      if (!write.tell) continue;
      ++tells_posted_;
      // One entry per staged write; the whole chain's staging is free with its last completion.
      staged_[(staged_first_ + staged_count_++) % staged_writes_max] = {staging.next(),
                                                                        tells_posted_};
    }
    staging_cursor_ = staging;
    if (mutant == Mutant::staging) staging_free_ = staging_cursor_.next();
  }
  void free_staging() noexcept {
    // A later entry of the same chain has the same end: freeing by the first would be
    // early, so ends are taken from the last.
    const std::uint64_t completed = connection_.completed();
    while (staged_count_ > 0) {
      const StagedWrite& oldest = staged_[staged_first_];
      if (oldest.told > completed) break;
      staged_first_ = (staged_first_ + 1) % staged_writes_max;
      --staged_count_;
      const bool more_of_chain = staged_count_ > 0 && staged_[staged_first_].end == oldest.end;
      if (!more_of_chain && oldest.end > staging_free_) staging_free_ = oldest.end;
    }
  }

  Sent post(std::span<const transport::Write> chain) noexcept {
    switch (connection_.post(chain)) {
      case transport::Post::posted: return Sent::posted;
      case transport::Post::busy: return Sent::busy;
      case transport::Post::failed: break;
    }
    return Sent::failed;
  }

  transport::Connection& connection_;
  const transport::Capabilities& capabilities_;
  SendPlaces places_;
  PayloadCursor payload_cursor_;
  PayloadCursor staging_cursor_;
  CreditCounter lines_;
  CreditCounter units_;
  std::uint32_t send_seed_;
  std::uint32_t receive_seed_;
  std::uint32_t next_message_;
  Credits told_;          // what the peer knows that we have consumed, for certain
  CreditCell seen_cell_;  // the last one that was taken
  // As connection_ counts: it may have been used before, and all of that is complete.
  std::uint64_t tells_posted_;
  std::byte* mapped_;  // our slot in the peer's slab, where we store to it
  std::uint64_t staging_free_ = 0;
  std::array<StagedWrite, staged_writes_max> staged_{};
  std::size_t staged_first_ = 0;
  std::size_t staged_count_ = 0;
  std::uint64_t segments_end_ = 0;  // where the last one ends, in cumulative units
};

}  // namespace qpmesh::messaging
