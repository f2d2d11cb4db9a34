// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <cstring>
#include <new>

#include "base/cpu_copy.hpp"
#include "messaging/core.hpp"
#include "messaging/rendezvous/rendezvous.hpp"

namespace qpmesh::messaging {

namespace {

// Most messages and most reductions are a few words: those do not pay for a call.
void copy_small(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  if (bytes == sizeof(std::uint64_t)) {
    std::memcpy(to, from, sizeof(std::uint64_t));
  } else {
    base::copy_bytes(to, from, bytes);
  }
}

void deliver(Core& core, ReceiveOperation& receive, const Envelope& envelope,
             const std::byte* payload) noexcept {
  if (receive.combine != nullptr) {
    alignas(16)
        std::byte aligned[inline_bytes_max];  // an inline payload starts in the middle of a record
    if (envelope.bytes <= sizeof aligned)
      payload = static_cast<std::byte*>(std::memcpy(aligned, payload, envelope.bytes));
    receive.combine(receive.data, receive.operand, payload, envelope.bytes, receive.context);
  } else {
    copy_small(receive.data, payload, envelope.bytes);
  }
  core.engine.complete(receive);
}

void unpin(Core& core, Unexpected& message) noexcept {
  Peer& peer = core.peer(message.envelope.source);
  Unexpected* before = nullptr;
  for (Unexpected* at = peer.first_pinned; at != &message; at = at->next_pinned) before = at;
  (before != nullptr ? before->next_pinned : peer.first_pinned) = message.next_pinned;
  if (peer.last_pinned == &message) peer.last_pinned = before;
  message.next_pinned = nullptr;
  message.ring_payload = nullptr;
  peer.pinned_bytes -= message.envelope.bytes;
  peer.in.free_until(peer.first_pinned != nullptr ? peer.first_pinned->place.start
                                                  : peer.in.next_unit());
  peer.freed_payload = true;
}

// Out of line: what it needs would be saved and restored for every message that is awaited.
[[gnu::noinline]] void keep(Core& core, Peer& peer, const Envelope& envelope,
                            const TakenMessage& message) {
  // Nobody will ask for it.
  if (failure_of(core, envelope.communicator) != nullptr) return;
  if (core.is_gone(envelope.communicator)) return;
  if (core.matching.messages_in_use() >= core.config.unexpected_messages_max) {
    return core.listener.communicator_failed(
        envelope.communicator,
        {.code = ErrorCode::no_resource,
         .peer = peer.rank,
         .operation = "receive",
         .cause = fmt::format("{} messages wait for receives that were never posted",
                              core.matching.messages_in_use()),
         .hint = "post receives, or raise QPMESH_UNEXPECTED_MESSAGES_MAX"});
  }
  const RecordHeader& header = message.record.header();
  Unexpected& kept = core.matching.new_message();
  kept.envelope = envelope;
  kept.kind = header.kind;
  kept.flags = header.flags;
  if (header.kind == RecordKind::eager_inline) {
    std::memcpy(kept.inline_payload, message.inline_payload, envelope.bytes);
  } else if (message.payload != nullptr && envelope.bytes <= inline_bytes_max) {
    std::memcpy(kept.inline_payload, message.payload, envelope.bytes);
    kept.kind = RecordKind::eager_inline;  // so short a payload need not pin the ring
  } else if (header.kind == RecordKind::rendezvous) {
    kept.offer = message.record.offer();
  } else {
    kept.ring_payload = message.payload;
    kept.place = message.place;
    (peer.last_pinned != nullptr ? peer.last_pinned->next_pinned : peer.first_pinned) = &kept;
    peer.last_pinned = &kept;
    peer.pinned_bytes += envelope.bytes;
  }
  core.matching.add(kept);
  if (peer.streams_in > 0) move_out_of_ring(core, peer);
}

// A message to ourselves, for a receive that waits: it needs no ring, however long it is. It
// overtakes nothing: the ring is empty, and what was taken out of it and kept fits no receive that
// waits. False: it goes as any other.
bool hand_over(Core& core, const Peer& peer, const Outgoing& message) {
  if (is_collective(message.key) || peer.in.next_message() != peer.out.next_message()) return false;
  const Envelope envelope{.communicator = message.communicator,
                          .key = message.key,
                          .source = peer.rank,
                          .bytes = message.bytes,
                          .signature = message.signature};
  while (ReceiveOperation* const receive = core.matching.take_posted(envelope)) {
    if (take_envelope(*receive, envelope)) [[likely]]
      return deliver(core, *receive, envelope, message.data), true;
    core.engine.complete(*receive);  // it cannot take that, and is told so
  }
  return false;
}

Ring::Sent post_as_record(Core& core, Peer& peer, const Outgoing& message) {
  if (peer.out.stores()) [[likely]]
    return post_inline(core, peer, message);
  RecordFields fields = fields_of(message, RecordKind::eager_inline, message.bytes);
  fields.inline_bytes = static_cast<std::uint8_t>(message.bytes);
  Record record;
  start_record(record, fields);
  copy_small(record.body(), message.data, message.bytes);
  return post(core, peer, record, {}, Ring::Priority::data);
}

Ring::Sent post_with_payload(Core& core, Peer& peer, const Outgoing& send) {
  RecordFields fields = fields_of(send, RecordKind::eager_payload, sizeof(PayloadPlace));
  const std::span payload{send.data, send.bytes};
  if (peer.out.stores()) [[likely]]
    return post(core, peer, fields, payload);
  Record record;
  start_record(record, fields);
  return post(core, peer, record, payload, Ring::Priority::data);
}

bool has_units(Peer& peer, std::size_t bytes) noexcept {
  if (peer.out.has_units(bytes)) return true;
  peer.out.poll_credits();
  return peer.out.has_units(bytes);
}

// Then one copy is faster than two, and its receiver makes it now. Who was in a send until we had
// its message is on its way to its next call: it is given a moment to get there.
bool stands_ready(Peer& peer, const Outgoing& message) noexcept {
  const bool was_pulled_from = std::exchange(peer.was_pulled_from, false);
  if (message.bytes <= ready_bytes_min || message.bytes > ready_bytes_max ||
      peer.remote_ready == nullptr)
    return false;
  const std::uint32_t name = Ready::name_of(message.communicator, message.key, message.signature);
  const auto is_ready = [&] {
    return peer.remote_ready->is_for(name, message.bytes, peer.out.lines_sent());
  };
  if (!was_pulled_from) return is_ready();
  const int spins = peer.ready_patience.spins();
  bool ready = is_ready();
  for (int spin = 0; spin < spins && !ready; ++spin) {
    base::cpu_pause();
    ready = is_ready();
  }
  if (spins > 0) peer.ready_patience.note(ready);
  return ready;
}

bool try_offer(Core& core, Peer& peer, SendOperation& send) {
  Record record;
  offer(core, peer, send, record);
  if (send.number == 0) return false;
  if (post(core, peer, record, {}, Ring::Priority::data) != Ring::Sent::posted) {
    core.sends.remove(send.number);
    send.number = 0;
    return false;
  }
  const bool readable = (record.header().flags & flag_source_readable) != 0;
  enter(send, readable ? SendState::readable : SendState::offered);
  peer.offered.push_back(send);
  if (!peer.preposted.empty()) take_preposted(core, peer, send);
  return true;
}

}  // namespace

Ring::Sent post_eagerly(Core& core, Peer& peer, const Outgoing& message) {
  if (peer.is_self && hand_over(core, peer, message)) return Ring::Sent::posted;
  if (message.synchronous) [[unlikely]]
    return Ring::Sent::no_units;
  // Where we store to the ring a longer payload has lines of its own, which the receiver need not
  // clear, and more messages are in flight. One that is a line itself stays beside its record: of
  // two such in a row the one that is read is fetched with the one that is being written.
  // Elsewhere one write is better than two.
  const std::size_t record_bytes =
      peer.out.stores() ? two_lines_inline_bytes_max : inline_bytes_max;
  if (message.bytes <= record_bytes) return post_as_record(core, peer, message);
  const bool is_eager =
      message.bytes <= peer.eager.max(message.key) && !stands_ready(peer, message);
  if (is_eager && has_units(peer, message.bytes)) return post_with_payload(core, peer, message);
  if (message.bytes <= inline_bytes_max) return post_as_record(core, peer, message);
  return is_eager && peer.out.returns_units_soon() ? Ring::Sent::busy : Ring::Sent::no_units;
}

// False: not now. Eager sends are done when this returns true, rendezvous have made their offer.
bool try_send(Core& core, Peer& peer, SendOperation& send) {
  if (peer.failed) return false;  // stays queued until the listener has failed its communicator
  const Ring::Sent sent = post_eagerly(core, peer, send);
  if (sent == Ring::Sent::posted) {
    core.engine.complete(send);
    return true;
  }
  if (sent != Ring::Sent::no_units) return false;
  if (send.bytes <= peer.eager.max(send.key) && !send.synchronous &&
      !peer.out.has_units(send.bytes))
    ++core.counters.degraded;
  return try_offer(core, peer, send);
}

void handle_message(Core& core, Peer& peer, const TakenMessage& message) {
  const RecordHeader& header = message.record.header();
  const Envelope envelope{.communicator = header.communicator,
                          .key = header.key,
                          .source = peer.rank,
                          .bytes = header.total_bytes,
                          .signature = header.signature};
  if (is_collective(header.key) &&
      !core.listener.agrees(peer.rank, header.communicator, operation_of(header.key),
                            header.signature))
    return;
  ReceiveOperation* receive = nullptr;
  for (;;) {
    receive = core.matching.take_posted(envelope);
    if (receive == nullptr) return keep(core, peer, envelope, message);
    if (is_preposted(receive->state)) return confirm(core, peer, *receive, header);
    if (take_envelope(*receive, envelope)) [[likely]]
      break;
    // Too small for the message, or of another type: told so, and the message stays first in line
    // for the receives behind it.
    core.engine.complete(*receive);
  }
  if (header.kind == RecordKind::rendezvous) {
    return accept_offer(core, peer, *receive, message.record.offer(), header.flags);
  }
  deliver(core, *receive, envelope,
          header.kind == RecordKind::eager_inline ? message.inline_payload : message.payload);
}

void take_unexpected(Core& core, ReceiveOperation& receive, Unexpected& message) {
  const Envelope envelope = message.envelope;
  if (!take_envelope(receive, envelope)) return core.engine.complete(receive);
  Peer& peer = core.peer(envelope.source);
  if (message.kind == RecordKind::rendezvous) {
    const OfferBody offered = message.offer;
    const std::uint8_t flags = message.flags;
    discard(core, message);
    return accept_offer(core, peer, receive, offered, flags);
  }
  deliver(core, receive, envelope, message.payload());
  discard(core, message);
  if (peer.first_pinned != nullptr) unblock_ring(core, peer);
  if (peer.credits_due()) return_credits(core, peer);
}

void discard(Core& core, Unexpected& message) noexcept {
  if (message.ring_payload != nullptr) unpin(core, message);
  if (message.copy) core.unexpected_bytes -= message.envelope.bytes;
  core.matching.remove(message);
  core.matching.free_message(message);
}

// A pipelined rendezvous needs the ring that unmatched payload holds.
void move_out_of_ring(Core& core, Peer& peer) {
  while (Unexpected* const message = peer.first_pinned) {
    const std::size_t bytes = message->envelope.bytes;
    if (core.unexpected_bytes + bytes > core.config.unexpected_bytes_max) {
      core.listener.communicator_failed(  // and discards its messages
          message->envelope.communicator,
          {.code = ErrorCode::no_resource,
           .peer = peer.rank,
           .operation = "receive",
           .cause =
               fmt::format("{} bytes wait for receives that were never posted, and {} more came",
                           core.unexpected_bytes, bytes),
           .hint = "post receives, or raise QPMESH_UNEXPECTED_BYTES_MAX"});
      if (peer.first_pinned == message)
        discard(core, *message);  // the listener does not know the communicator
      continue;
    }
    message->copy = std::make_unique_for_overwrite<std::byte[]>(bytes);
    base::copy_bytes(message->copy.get(), message->ring_payload, bytes);
    core.unexpected_bytes += bytes;
    unpin(core, *message);
  }
}

// A message that is not received yet also holds the room of later ones that are. When that is half
// of the ring, and mostly theirs, what is not received is copied out. Where it is mostly unreceived
// it stays: the copies would cost more than a sender that waits.
void unblock_ring(Core& core, Peer& peer) noexcept try {
  const std::size_t held_bytes =
      (peer.in.next_unit() - peer.first_pinned->place.start) * unit_bytes;
  if (held_bytes >= peer.in.ring_units() * unit_bytes / 2 && peer.pinned_bytes <= held_bytes / 2 &&
      core.unexpected_bytes + peer.pinned_bytes <= core.config.unexpected_bytes_max)
    move_out_of_ring(core, peer);
} catch (const std::bad_alloc&) {  // then they stay
}

namespace {

// Not inlined: every collective would save registers for what there hardly ever is.
[[gnu::noinline]] void recheck_unexpected(Core& core, std::uint64_t communicator,
                                          std::uint32_t operation) {
  core.matching.for_each_unexpected_collective([&](Unexpected& message) {
    const Envelope& envelope = message.envelope;
    if (envelope.communicator != communicator || operation_of(envelope.key) != operation) return;
    if (!core.listener.agrees(envelope.source, communicator, operation, envelope.signature))
      discard(core, message);
  });
}

}  // namespace

void Messaging::recheck_signatures(std::uint64_t communicator, std::uint32_t operation) {
  if (core_->matching.has_unexpected_collectives())
    recheck_unexpected(*core_, communicator, operation);
}

}  // namespace qpmesh::messaging
