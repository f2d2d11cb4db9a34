// SPDX-License-Identifier: MIT
// The end of a direction that takes messages out of our own memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "messaging/mutant.hpp"
#include "messaging/rings/credits.hpp"
#include "messaging/rings/layout.hpp"
#include "messaging/rings/record.hpp"
#include "messaging/rings/ring.hpp"
#include "transport/transport.hpp"

namespace qpmesh::messaging {

struct TakenMessage {
  TakenMessage() = default;
  TakenMessage(const TakenMessage&) = delete;  // it may point into itself
  TakenMessage& operator=(const TakenMessage&) = delete;

  // Of an inline message only the first line where the flag is stored last.
  Record record;
  const std::byte* inline_payload = nullptr;  // of an inline message, until release()
  const std::byte* payload = nullptr;         // in the payload ring, or nullptr
  std::uint32_t lines = 0;                    // of the ring of records, that it holds until then
  PayloadCursor::Place
      place{};  // of record and payload there; freed by the caller through free_until
};

template <class Atomics>
class ReceiveRing {
 public:
  // slot: this rank's memory that the peer writes (layout.hpp). seed: direction_seed of the
  // direction peer → us. first_message: the number that both ends of the direction start from.
  ReceiveRing(transport::Connection& connection, const transport::Capabilities& capabilities,
              std::byte* slot, RingLayout layout, std::uint32_t seed,
              std::uint32_t first_message = 0) noexcept
      : connection_{connection},
        capabilities_{capabilities},
        records_{slot + RingLayout::records_offset},
        payloads_{slot + RingLayout::payload_offset},
        revokes_{slot + RingLayout::revokes_offset},
        cursor_{layout.payload_ring_units},
        seed_{seed},
        first_message_{first_message},
        next_message_{first_message} {}

  enum class Take : std::uint8_t { nothing, taken, corrupt };

  // The next message in the order sent. Its lines stay until release, behind which the next one is
  // taken; its payload until free_until. on_credit(immediate) is called for immediates that tell
  // credits.
  template <class OnCredit>
  Take take(TakenMessage& out, OnCredit&& on_credit) {
    const std::uint32_t expected = sequence_word(next_message_);
    if (capabilities_.small == transport::Notification::poll) {
      const std::byte* const line = head_line();
      const std::uint32_t sequence = Atomics::load_acquire(base::word_at<std::uint32_t>(line));
      const bool due = mutant == Mutant::equality ? sequence != 0 : sequence == expected;
      if (due) {
        const Take result = copy_polled(out.record, line, expected);
        return result == Take::taken ? accept_lines(out) : result;
      }
    }
    return uses_immediates() ? take_arrived(out, expected, on_credit) : Take::nothing;
  }

  // The message is read. Its lines are cleared before their credit can return, so that old payload
  // never looks like a record. Where the flag is stored last, it alone decides: an old one stays,
  // which nothing expects any more, and only lines that began with payload are cleared. A line that
  // we store to has to be fetched from us by the sender's next store (an eighth of a small
  // message).
  void release(TakenMessage& message) noexcept {
    const std::uint32_t lines = std::exchange(message.lines, 0);
    if (mutant != Mutant::line_clearing) {
      if (!capabilities_.ordered_flag) Atomics::clear_unproven(head_line(), lines * line_bytes);
      else if (lines > 1) Atomics::clear(head_line() + line_bytes, (lines - 1) * line_bytes);
    }
    consumed_lines_ += lines;
  }

  // Cheap: may take have something? A look at one word where records are polled.
  bool has_news() noexcept {
    if (uses_immediates()) return true;
    const bool is_due = Atomics::load_acquire(base::word_at<std::uint32_t>(head_line())) ==
                        sequence_word(next_message_);
    if (!is_due) taken_in_a_row_ = 0;
    return is_due;
  }

  // Everything before this cumulative unit may be overwritten once the credit is returned.
  void free_until(std::uint64_t unit) noexcept { freed_units_ = unit; }
  std::uint64_t next_unit() const noexcept { return cursor_.next(); }
  std::uint32_t ring_units() const noexcept { return cursor_.ring_units(); }

  // The peer posts again all messages that were not taken, and nothing of it lands until it hears
  // how many were: so many since the beginning. What came of the others is as if it had not. A line
  // that holds a part would be a whole record before the last byte is written again, and be cleared
  // too early.
  std::uint32_t start_over() noexcept {
    Atomics::clear_unproven(records_, record_ring_lines * line_bytes);
    arrival_.reset();
    const std::uint32_t taken = next_message_ - first_message_;
    return (mutant == Mutant::taken_count && taken > 0 ? taken - 1 : taken) & message_number_mask;
  }

  std::uint32_t next_message() const noexcept { return next_message_; }
  // How many records of kind revoke the peer tells of (SendRing::tell_revokes).
  std::uint32_t revokes_heard() const noexcept {
    return Atomics::load_acquire(base::word_at<std::uint32_t>(revokes_));
  }
  Credits consumed() const noexcept { return {consumed_lines_, freed_units_}; }
  std::uint64_t partial_records() const noexcept {
    return partial_records_;
  }  // observed torn, then looked at again

 private:
  bool uses_immediates() const noexcept {
    return capabilities_.small == transport::Notification::immediate ||
           capabilities_.medium == transport::Notification::immediate;
  }
  std::uint32_t head_index() const noexcept {
    return static_cast<std::uint32_t>(consumed_lines_) & (record_ring_lines - 1);
  }
  std::byte* head_line() const noexcept { return records_ + head_index() * line_bytes; }

  static bool has_payload(RecordKind kind) noexcept {
    return kind == RecordKind::eager_payload || kind == RecordKind::segment;
  }
  static bool plausible(const RecordHeader& header, std::uint32_t lines_left) noexcept {
    const std::size_t length = std::size_t{header.length_words} * 8;
    return length >= record_length_min && length <= record_length_max &&
           record_lines(length) <= lines_left;
  }

  // The flag is set; is the rest there? Where the flag is stored last it is. Elsewhere the record
  // proves itself: by its tail where bytes appear in address order, by tail and checksum where they
  // appear in any.
  Take copy_polled(Record& record, const std::byte* line, std::uint32_t expected) {
    const std::uint32_t lines_left = record_ring_lines - head_index();
    if (capabilities_.ordered_flag) {
      // Before the length is known: of a record of two lines the second comes while the first is
      // read. Of a shorter one it is the next record's, which costs nothing that can be measured.
      if (lines_left > 1) base::prefetch(line + line_bytes);
      Atomics::copy(record.bytes, line, line_bytes);
      if (!plausible(record.header(), lines_left)) return Take::corrupt;
      copy_further_lines(record, line);
      return Take::taken;
    }
    Atomics::copy_unproven(record.bytes, line, line_bytes);
    if (!plausible(record.header(), lines_left)) return partial();
    const std::uint32_t tail =
        Atomics::load_acquire(base::word_at<std::uint32_t>(line + record.length() - sizeof tail));
    if (mutant != Mutant::tail && tail != ~expected) return partial();
    const std::uint8_t length_words = record.header().length_words;
    Atomics::copy_unproven(record.bytes, line, line_bytes);
    if (record.header().length_words != length_words) return partial();  // the first look was torn
    if (record.length() > line_bytes)
      Atomics::copy_unproven(record.bytes + line_bytes, line + line_bytes,
                             record.length() - line_bytes);
    if (capabilities_.bytes_in_order || mutant == Mutant::checksum) return Take::taken;
    const bool proven = record.header().sequence == expected &&
                        record.header().checksum == record_checksum(record, seed_);
    return proven ? Take::taken : partial();
  }
  // A copy of a few words just now, read in other words, waits until all earlier stores have left
  // the core. An inline payload goes to its receiver out of the ring.
  bool reads_in_place(const RecordHeader& header) const noexcept {
    return capabilities_.ordered_flag && header.kind == RecordKind::eager_inline;
  }
  void copy_further_lines(Record& record, const std::byte* line) {
    if (record.length() > line_bytes && !reads_in_place(record.header()))
      Atomics::copy(record.bytes + line_bytes, line + line_bytes, record.length() - line_bytes);
  }
  Take partial() noexcept {
    ++partial_records_;
    return Take::nothing;
  }

  template <class OnCredit>
  Take take_arrived(TakenMessage& out, std::uint32_t expected, OnCredit&& on_credit) {
    for (;;) {
      if (!arrival_) arrival_ = connection_.poll_immediate();
      if (!arrival_) return Take::nothing;
      const Immediate immediate = decode_immediate(*arrival_);
      switch (immediate.kind) {
        case ImmediateKind::lines:
        case ImmediateKind::units:
          on_credit(immediate);
          arrival_.reset();
          continue;
        case ImmediateKind::record: return take_arrived_record(out, expected, immediate.content);
        case ImmediateKind::payload: return take_arrived_payload(out, expected, immediate.content);
        default: return Take::corrupt;
      }
    }
  }

  Take take_arrived_record(TakenMessage& out, std::uint32_t expected, std::uint32_t line_index) {
    if (line_index != head_index()) return Take::corrupt;
    const std::byte* const line = head_line();
    Atomics::copy(out.record.bytes, line, line_bytes);
    const std::uint32_t lines_left = record_ring_lines - head_index();
    if (out.record.header().sequence != expected || !plausible(out.record.header(), lines_left))
      return Take::corrupt;
    copy_further_lines(out.record, line);
    arrival_.reset();
    return accept_lines(out);
  }

  Take take_arrived_payload(TakenMessage& out, std::uint32_t expected, std::uint32_t unit_index) {
    if (unit_index >= cursor_.ring_units()) return Take::corrupt;
    const std::byte* const at = payloads_ + unit_index * unit_bytes;
    Atomics::copy(out.record.bytes, at, line_bytes);
    if (out.record.header().sequence != expected)
      return Take::nothing;  // an earlier, polled record is still on its way
    arrival_.reset();
    const std::uint32_t units_left = cursor_.ring_units() - unit_index;
    if (!plausible(out.record.header(), units_left) || !has_payload(out.record.header().kind))
      return Take::corrupt;
    copy_further_lines(out.record, at);
    const std::uint32_t lines = record_lines(out.record.length());
    return accept_payload(out, lines, unit_index);
  }

  // A record in the record ring.
  Take accept_lines(TakenMessage& out) {
    const RecordKind kind = out.record.header().kind;
    out.lines = kind == RecordKind::pad ? record_ring_lines - head_index()
                                        : record_lines(out.record.length());
    fetch_ahead(out.lines);
    if (has_payload(kind)) return accept_payload(out, 0, out.record.place());
    ++next_message_;
    out.inline_payload =
        reads_in_place(out.record.header()) ? head_line() + record_body_offset : out.record.body();
    out.payload = nullptr;
    return Take::taken;
  }

  // The lines of a later message of this length, where a core stores them. Where this one and those
  // before it were there when this rank looked, the sender is ahead, and has written them. Who
  // fetches a line that is still to be written takes it out of its sender's cache.
  void fetch_ahead(std::uint32_t lines) noexcept {
    constexpr std::uint32_t lines_fetched_ahead = 6;  // a sender takes back 8: SendRing
    constexpr std::uint32_t row_of_a_stream = 16;
    if (!capabilities_.ordered_flag || ++taken_in_a_row_ < row_of_a_stream) return;
    for (std::uint32_t line = lines_fetched_ahead; line < lines_fetched_ahead + lines; ++line)
      base::prefetch(records_ + ((head_index() + line) & (record_ring_lines - 1)) * line_bytes);
  }

  // head_units: the record itself, where it precedes its payload in the payload ring.
  Take accept_payload(TakenMessage& out, std::uint32_t head_units, std::uint32_t unit_index) {
    const std::uint64_t bytes = out.record.header().total_bytes;
    if (bytes > cursor_.ring_units() / 2 * unit_bytes) return Take::corrupt;
    const std::uint32_t units =
        head_units > 0 ? gathered_units(head_units, bytes) : units_for(bytes);
    if (units > cursor_.ring_units() / 2) return Take::corrupt;
    out.place = cursor_.peek(units);
    // The sender begins at the start again while we hold nothing of the ring.
    if (unit_index == 0 && cursor_.index(out.place.start) != 0 && freed_units_ == cursor_.next()) {
      cursor_.restart();
      out.place = cursor_.peek(units);
    }
    if (cursor_.index(out.place.start) != unit_index) return Take::corrupt;
    cursor_.advance(out.place);
    out.payload = payloads_ + (unit_index + head_units) * unit_bytes;
    // On its way while the message is matched.
    const auto asked_for =
        static_cast<std::size_t>(std::min<std::uint64_t>(bytes, prefetch_bytes_max));
    for (std::size_t at = 0; at < asked_for; at += base::cache_line_bytes)
      base::prefetch(out.payload + at);
    ++next_message_;
    return Take::taken;
  }

  // More than a core has requests for only waits.
  static constexpr std::size_t prefetch_bytes_max = 1024;

  transport::Connection& connection_;
  const transport::Capabilities& capabilities_;
  std::byte* records_;
  std::byte* payloads_;
  const std::byte* revokes_;
  PayloadCursor cursor_;
  std::uint32_t seed_;
  std::uint32_t first_message_;
  std::uint32_t next_message_;
  std::uint32_t taken_in_a_row_ = 0;  // without a look that found nothing
  std::uint64_t consumed_lines_ = 0;
  std::uint64_t freed_units_ = 0;
  std::uint64_t partial_records_ = 0;
  std::optional<std::uint32_t> arrival_;  // taken from the connection, its message not yet due
};

}  // namespace qpmesh::messaging
