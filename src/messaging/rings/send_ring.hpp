// The end of a direction that writes messages into the peer's memory.
#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include "messaging/mutant.hpp"
#include "messaging/rings/credits.hpp"
#include "messaging/rings/layout.hpp"
#include "messaging/rings/record.hpp"
#include "messaging/rings/ring.hpp"
#include "transport/connection.hpp"

namespace qpmesh::messaging {

// Where a sender's rings lie in the peer's memory, and our own memory for what
// may not leave from where it is.
struct SendPlaces {
  transport::RemoteAddress slot;           // ours, in the peer's slab
  const std::byte* credit_cell = nullptr;  // in our slot for this peer: the peer writes it
  std::span<std::byte> staging;            // empty where every source may be reused at once
};

template <class Atomics>
class SendRing {
 public:
  // send_seed: of the direction us → peer; the credit cell that the peer writes is sealed with receive_seed.
  SendRing(transport::Connection& connection, const transport::Capabilities& capabilities,
           const SendPlaces& places, RingLayout layout, std::uint32_t send_seed, std::uint32_t receive_seed,
           std::uint32_t first_message = 0) noexcept
      : connection_{connection},
        capabilities_{capabilities},
        places_{places},
        payload_cursor_{layout.payload_ring_units},
        staging_cursor_{static_cast<std::uint32_t>(places.staging.size() / unit_bytes)},
        send_seed_{send_seed},
        receive_seed_{receive_seed},
        next_message_{first_message},
        peer_told_until_{first_message},
        tells_posted_{connection.completed()} {
    assert(layout.payload_ring_units <= payload_ring_units_max);
  }

  // Kept for rendezvous control while data fills the ring: two answers, one of which may have to skip the ring's last line.
  static constexpr std::uint32_t reserved_lines = 2 * record_lines(record_length(sizeof(RendezvousBody))) + 1;

  enum class Sent : std::uint8_t { posted, no_lines, no_units, busy, failed };
  enum class Priority : std::uint8_t { data, control };

  // Fills in sequence, credits, CRC and tail of the record and posts it with its payload (empty: none). On
  // anything but posted nothing has happened. payload may be reused at once.
  Sent send(Record& record, std::span<const std::byte> payload, Priority priority,
            const CreditsToReturn& credits) {
    const bool gathered = !payload.empty() && capabilities_.medium == transport::Notification::immediate;
    return gathered ? send_gathered(record, payload, credits)
                    : send_record(record, payload, priority, credits);
  }

  // How much payload one message may carry now; 0: none.
  bool has_units(std::size_t payload_bytes) const noexcept {
    std::uint32_t units = units_for(payload_bytes);
    if (capabilities_.medium == transport::Notification::immediate) units += record_lines_max;
    return payload_cursor_.peek(units).end - units_.acknowledged() <= payload_cursor_.ring_units();
  }
  // Of a stream, an eighth of the ring: the receiver empties one segment while the next ones are on their way. Together with
  // its record where both are one write, so that the power of two is also a packet. A multiple of every element size.
  std::size_t segment_bytes_max() const noexcept {
    const std::size_t eighth = payload_cursor_.ring_units() / 8 * unit_bytes;
    const bool gathered = capabilities_.medium == transport::Notification::immediate;
    const std::size_t record =
        gathered ? record_lines(record_length(sizeof(RendezvousBody))) * line_bytes : 0;
    return eighth > record ? eighth - record : unit_bytes;
  }
  bool has_lines(std::uint32_t lines, Priority priority) const noexcept {
    const std::uint32_t left = record_ring_lines - line_index();
    const std::uint32_t skip = lines > left ? left : 0;
    const bool keeps_reserve = priority == Priority::data && mutant != Mutant::reserved_lines;
    return lines_.in_flight() + skip + lines + (keeps_reserve ? reserved_lines : 0) <= record_ring_lines;
  }

  // A write into memory the peer opened; told: its completion number, see completed(). From where the source is, which stays
  // untouched until then, or through our staging.
  enum class From : std::uint8_t { source, staging };
  Sent write(std::span<const std::byte> source, std::optional<std::uint32_t> source_region,
             transport::RemoteAddress target, From from, std::uint64_t& told) {
    transport::Write write{.head = {},
                           .body = source,
                           .source_region = source_region,
                           .target = target,
                           .immediate = {},
                           .tell = true};
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
  // Whether a message whose last piece was told so may post another: a few are under way at a time, so that what is taken back is
  // soon done with.
  bool has_room_behind(std::uint64_t told) const noexcept {
    return told < pieces_in_flight_max || completed(told - (pieces_in_flight_max - 1));
  }
  // How much one write through the staging may carry.
  std::size_t staged_bytes_max() const noexcept { return staging_cursor_.ring_units() / 2 * unit_bytes; }
  bool completed(std::uint64_t told) const noexcept { return connection_.completed() >= told; }

  // Tells the peer what we have consumed, without a record.
  Sent return_credits(const CreditsToReturn& credits) {
    transport::Write write{
        .head = {}, .body = {}, .target = address(RingLayout::credit_cell_offset), .immediate = {}};
    if (capabilities_.small == transport::Notification::immediate) {
      const auto low_bits =
          static_cast<std::uint32_t>((credits.lines & 0xff) << 16 | (credits.units & 0xffff));
      write.immediate = encode({ImmediateKind::credit, low_bits});
      return post({&write, 1});
    }
    CreditCell cell{.generation = cell_generation_ + 1,
                    .crc = 0,
                    .lines = static_cast<std::uint32_t>(credits.lines),
                    .next_message = next_message_,
                    .units = credits.units};
    cell.crc = credit_crc(cell, send_seed_);
    write.head = std::as_bytes(std::span{&cell, 1});
    write.flag_offset = 0;
    PayloadCursor staging = begin_staging();
    if (!stage(write, staging)) return Sent::busy;
    const Sent sent = post({&write, 1});
    if (sent != Sent::posted) return sent;
    commit_staging(staging, {&write, 1});
    if (++cell_generation_ == ~std::uint32_t{0}) cell_generation_ = 0;  // never 0 in a cell
    return sent;
  }

  // Folds in what the peer has returned through the cell. Torn cells keep the old value.
  void poll_credit_cell() noexcept {
    const std::uint32_t generation = Atomics::load_acquire(base::word_at<std::uint32_t>(places_.credit_cell));
    if (generation == seen_generation_) return;
    CreditCell cell;
    Atomics::copy(reinterpret_cast<std::byte*>(&cell), places_.credit_cell, sizeof cell);
    if (!capabilities_.ordered_flag &&
        (cell.generation != generation || cell.crc != credit_crc(cell, receive_seed_)))
      return;
    seen_generation_ = generation;
    const std::uint32_t ahead = (cell.next_message - peer_told_until_) & message_number_mask;
    if (ahead <= unread_messages_max)
      peer_told_until_ = cell.next_message;  // else the cell was unread for long
    fold(cell.lines, cell.units);
  }
  // Those that a record of the peer carries, unless a cell that was written behind it has told more. Records come in order. A cell is not left
  // unread for so long that its number could come again.
  void fold_carried(const RecordHeader& header) noexcept {
    if (header.sequence % messages_between_cells_max == 0) poll_credit_cell();
    const std::uint32_t behind = (peer_told_until_ - header.sequence) & message_number_mask;
    if (behind != 0 && behind <= unread_messages_max) return;
    peer_told_until_ = header.sequence & message_number_mask;
    fold(header.credit_lines, header.credit_units);
  }
  template <class Lines, class Units>
  void fold(Lines lines, Units units) noexcept {
    lines_.fold(lines);
    units_.fold(units);
  }

  std::uint64_t lines_in_flight() const noexcept { return lines_.in_flight(); }

 private:
  static constexpr std::size_t chain_max = 3;  // pad, payload, record
  static constexpr std::uint64_t pieces_in_flight_max = 4;
  static constexpr std::size_t staged_writes_max = 256;
  static constexpr std::uint32_t unread_messages_max = 1U << 16;  // more than lines and units take
  static constexpr std::uint32_t messages_between_cells_max = 1U << 20;

  struct StagedWrite {
    std::uint64_t end;   // staging is free up to here …
    std::uint64_t told;  // … once this completion has come
  };

  std::uint32_t line_index() const noexcept {
    return static_cast<std::uint32_t>(lines_.sent()) & (record_ring_lines - 1);
  }
  transport::RemoteAddress address(std::uint64_t offset) const noexcept {
    return {places_.slot.region, places_.slot.offset + offset};
  }

  void seal(Record& record, std::uint32_t message, const CreditsToReturn& credits) const noexcept {
    const std::uint32_t sequence = sequence_word(message);
    std::uint64_t kinds_and_credits = 0;  // one word: see start_record
    std::memcpy(&kinds_and_credits, record.bytes + 8, sizeof kinds_and_credits);
    kinds_and_credits =
        (kinds_and_credits & 0xffffffffU) | (credits.lines & 0xffffU) << 32 | (credits.units & 0xffffU) << 48;
    std::memcpy(record.bytes + 8, &kinds_and_credits, sizeof kinds_and_credits);
    const std::uint64_t sequence_without_crc = sequence;
    std::memcpy(record.bytes, &sequence_without_crc, sizeof sequence_without_crc);
    const std::uint32_t tail = ~sequence;
    std::memcpy(record.bytes + record.length() - sizeof tail, &tail, sizeof tail);
    if (!capabilities_.ordered_flag && !capabilities_.bytes_in_order)
      record.header().crc = record_crc(record, send_seed_);
  }

  transport::Write record_write(const Record& record, std::uint32_t index) const noexcept {
    transport::Write write{.head = {record.bytes, record.length()},
                           .body = {},
                           .target = address(RingLayout::records_offset + index * line_bytes),
                           .flag_offset = 0,
                           .immediate = {}};
    if (capabilities_.small == transport::Notification::immediate)
      write.immediate = encode({ImmediateKind::record, index});
    return write;
  }

  Sent send_record(Record& record, std::span<const std::byte> payload, Priority priority,
                   const CreditsToReturn& credits) {
    const std::uint32_t lines = record_lines(record.length());
    if (!has_lines(lines, priority)) return Sent::no_lines;
    if (payload.empty() && line_index() + lines <= record_ring_lines)
      return send_alone(record, lines, credits);
    std::array<transport::Write, chain_max> chain;
    std::size_t writes = 0;
    std::uint32_t message = next_message_;
    std::uint32_t index = line_index();
    std::uint32_t skipped = 0;
    Record pad;
    if (index + lines > record_ring_lines) {
      skipped = record_ring_lines - index;
      start_record(pad, {.kind = RecordKind::pad});
      seal(pad, message++, credits);
      chain[writes++] = record_write(pad, index);
      index = 0;
    }
    PayloadCursor::Place place{};
    if (!payload.empty()) {
      place = next_place(units_for(payload.size()));
      if (place.end - units_.acknowledged() > payload_cursor_.ring_units()) return Sent::no_units;
      const std::uint32_t unit = payload_cursor_.index(place.start);
      record.set_place(unit);
      chain[writes++] = {.head = {},
                         .body = payload,
                         .target = address(RingLayout::payload_offset + unit * unit_bytes),
                         .immediate = {}};
    }
    seal(record, message++, credits);
    chain[writes++] = record_write(record, index);
    if (mutant == Mutant::flag_order && !payload.empty()) std::swap(chain[writes - 1], chain[writes - 2]);
    const Sent sent = post_staged({chain.data(), writes});
    if (sent != Sent::posted) return sent;
    next_message_ = message;
    lines_.send(skipped + lines);
    if (!payload.empty()) advance_payload(place);
    return sent;
  }

  // The small message: one write.
  Sent send_alone(Record& record, std::uint32_t lines, const CreditsToReturn& credits) {
    seal(record, next_message_, credits);
    transport::Write write = record_write(record, line_index());
    const std::span<transport::Write> chain{&write, 1};
    const Sent sent = record.length() <= capabilities_.inline_bytes_max ? post(chain) : post_staged(chain);
    if (sent != Sent::posted) return sent;
    ++next_message_;
    lines_.send(lines);
    return sent;
  }

  // Record and payload in one write into the payload ring; the immediate is the flag.
  Sent send_gathered(Record& record, std::span<const std::byte> payload, const CreditsToReturn& credits) {
    const std::uint32_t head_units = record_lines(record.length());
    const PayloadCursor::Place place = next_place(head_units + units_for(payload.size()));
    if (place.end - units_.acknowledged() > payload_cursor_.ring_units()) return Sent::no_units;
    const std::uint32_t unit = payload_cursor_.index(place.start);
    record.set_place(unit);
    seal(record, next_message_, credits);
    transport::Write write{.head = {record.bytes, head_units * line_bytes},
                           .body = payload,
                           .target = address(RingLayout::payload_offset + unit * unit_bytes),
                           .immediate = encode({ImmediateKind::payload, unit})};
    const Sent sent = post_staged({&write, 1});
    if (sent != Sent::posted) return sent;
    ++next_message_;
    advance_payload(place);
    return sent;
  }

  // The receiver, who holds nothing either, sees by the record's place that the cursor has restarted.
  PayloadCursor::Place next_place(std::uint32_t units) noexcept {
    const PayloadCursor::Place place = payload_cursor_.peek(units);
    if (units_.in_flight() > 0 || payload_cursor_.index(place.start) == 0) return place;
    payload_cursor_.restart();
    return payload_cursor_.peek(units);
  }

  void advance_payload(const PayloadCursor::Place& place) noexcept {
    units_.send(place.end - payload_cursor_.next());
    payload_cursor_.advance(place);
  }

  Sent post_staged(std::span<transport::Write> chain) {
    PayloadCursor staging = begin_staging();
    for (transport::Write& write : chain) {
      if (!stage(write, staging)) return Sent::busy;
    }
    const Sent sent = post(chain);
    if (sent == Sent::posted) commit_staging(staging, chain);
    return sent;
  }

  // Where the staging of a chain begins. At the start when nothing is staged: a chain may take more than half of it, which
  // elsewhere would not fit though all of it is free.
  PayloadCursor begin_staging() noexcept {
    free_staging();
    if (staged_count_ == 0) {
      staging_cursor_.restart();
      staging_free_ = staging_cursor_.next();
    }
    return staging_cursor_;
  }

  // What does not leave inline is copied to staging, because the caller may reuse its memory at once but the
  // device may read it until the completion (and again, when it retransmits). False: staging is full.
  bool stage(transport::Write& write, PayloadCursor& staging) {
    const std::size_t bytes = write.head.size() + write.body.size();
    if (bytes <= capabilities_.inline_bytes_max) return true;
    const PayloadCursor::Place place = staging.peek(units_for(bytes));
    if (place.end - staging_free_ > staging.ring_units() || staged_count_ + chain_max > staged_writes_max)
      return false;
    std::byte* const copy = places_.staging.data() + staging.index(place.start) * unit_bytes;
    if (!write.head.empty()) std::memcpy(copy, write.head.data(), write.head.size());
    if (!write.body.empty()) std::memcpy(copy + write.head.size(), write.body.data(), write.body.size());
    // A flag stays in head: the pieces keep their lengths and are still gathered.
    write.body = {copy + write.head.size(), write.body.size()};
    write.head = {copy, write.head.size()};
    write.tell = true;
    staging.advance(place);
    return true;
  }
  void commit_staging(const PayloadCursor& staging, std::span<const transport::Write> chain) noexcept {
    for (const transport::Write& write : chain) {
      if (!write.tell) continue;
      ++tells_posted_;
      // One entry per staged write; the whole chain's staging is free with its last completion.
      staged_[(staged_first_ + staged_count_++) % staged_writes_max] = {staging.next(), tells_posted_};
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
  std::uint32_t cell_generation_ = 0;
  std::uint32_t seen_generation_ = 0;
  std::uint32_t peer_told_until_;  // credits that the peer's records before this one carry are older
  std::uint64_t
      tells_posted_;  // as connection_ counts: it may have been used before, and all of that is complete
  std::uint64_t staging_free_ = 0;
  std::array<StagedWrite, staged_writes_max> staged_{};
  std::size_t staged_first_ = 0;
  std::size_t staged_count_ = 0;
};

}  // namespace qpmesh::messaging
