// SPDX-License-Identifier: MIT
#include "messaging/core.hpp"

#include <fmt/format.h>

#include <cstring>
#include <new>

#include "base/errors.hpp"
#include "messaging/rendezvous/rendezvous.hpp"

namespace qpmesh::messaging {

namespace {

constexpr int messages_per_sweep_max = 32;  // then the next peer has its turn
// What passed the caches by the peer fetches from memory: the sender's time is the smaller part.
constexpr double past_caches_factor = 2.5;

void handle(Core& core, Peer& peer, TakenMessage& message) {
  const RecordHeader& header = message.record.header();
  peer.out.take_credits(header);
  if ((header.flags & flag_want_credit) != 0) peer.wants_credit = true;
  switch (header.kind) {
    case RecordKind::pad: break;
    case RecordKind::eager_inline:
      if (header.inline_bytes != header.total_bytes ||
          record_length(header.inline_bytes) != message.record.length()) {
        return link_failed(core, peer, ErrorCode::corrupt,
                           fmt::format("an inline record of {} bytes in {}", header.total_bytes,
                                       message.record.length()));
      }
      [[fallthrough]];
    case RecordKind::eager_payload: handle_message(core, peer, message); break;
    case RecordKind::rendezvous:
      if (message.record.offer().sender_operation == 0)
        return link_failed(core, peer, ErrorCode::corrupt, "an offer of no operation");
      handle_message(core, peer, message);
      break;
    case RecordKind::clear_to_send: handle_clear_to_send(core, peer, message.record); break;
    case RecordKind::segment: handle_segment(core, peer, message); break;
    case RecordKind::finished: handle_finished(core, peer, message.record); break;
    case RecordKind::revoke: handle_revoke(core, peer, message.record.rendezvous()); break;
    case RecordKind::revoked: handle_revoked(core, peer, message.record.rendezvous()); break;
    case RecordKind::help:
      if (message.record.length() != record_length(sizeof(HelpBody)))
        return link_failed(core, peer, ErrorCode::corrupt, "a request for help of another length");
      handle_help(core, peer, message.record.help());
      break;
    default:
      return link_failed(core, peer, ErrorCode::corrupt,
                         fmt::format("a record of kind {}", static_cast<int>(header.kind)));
  }
  // Whatever the message left behind is unmatched payload: the oldest of it is where the ring is
  // still ours.
  if (message.payload != nullptr) {
    if (peer.first_pinned != nullptr) unblock_ring(core, peer);
    const bool pinned = peer.first_pinned != nullptr && mutant != Mutant::credit_after_last_read;
    peer.in.free_until(pinned ? peer.first_pinned->place.start : peer.in.next_unit());
  }
}

// What try_to_send(consumed) says, after a second look at the peer's credits where they are short.
template <class TryToSend>
Ring::Sent post_by(Core& core, Peer& peer, TryToSend&& try_to_send) {
  const Credits consumed = peer.in.consumed();
  Ring::Sent sent = Ring::Sent::busy;
  for (bool looked = false;; looked = true) {
    sent = try_to_send(consumed);
    const bool is_short = sent == Ring::Sent::no_lines || sent == Ring::Sent::no_units;
    if (!is_short || looked) [[likely]]
      break;
    peer.out.poll_credits();
  }
  switch (sent) {
    case Ring::Sent::posted:
      ++core.counters.records_sent;
      peer.starved = false;
      break;
    case Ring::Sent::failed:
      link_failed(core, peer, ErrorCode::link_failed, "the connection failed");
      break;
    case Ring::Sent::no_units: peer.starved = true; break;
    // The peer returns half of the lines unasked, which is more than any record takes.
    case Ring::Sent::no_lines:
    case Ring::Sent::busy: break;
  }
  return sent;
}

}  // namespace

Ring::Sent post(Core& core, Peer& peer, Record& record, std::span<const std::byte> payload,
                Ring::Priority priority) {
  if (peer.starved) record.header().flags |= flag_want_credit;
  return post_by(core, peer, [&](const Credits& consumed) {
    return peer.out.send(record, payload, priority, consumed);
  });
}

Ring::Sent post_inline(Core& core, Peer& peer, const Outgoing& message) {
  RecordFields fields = fields_of(message, RecordKind::eager_inline, message.bytes);
  fields.inline_bytes = static_cast<std::uint8_t>(message.bytes);
  if (peer.starved) [[unlikely]]
    fields.flags |= flag_want_credit;
  return post_by(core, peer, [&](const Credits& consumed) {
    return peer.out.store_inline(fields, {message.data, message.bytes}, Ring::Priority::data,
                                 consumed);
  });
}

Ring::Sent post(Core& core, Peer& peer, RecordFields& fields, std::span<const std::byte> payload,
                std::uint32_t receiver_operation) {
  if (peer.starved) fields.flags |= flag_want_credit;
  const auto store = [&](bool streaming) {
    return post_by(core, peer, [&](const Credits& consumed) {
      return peer.out.store(fields, payload, Ring::Priority::data, consumed, streaming,
                            receiver_operation);
    });
  };
  if (payload.size() < store_choice_bytes_min || !core.config.measures) return store(false);
  // Where the cores share no cache each line that the peer has read costs its way back, unless it
  // is stored past the caches. Where they share one that takes longer.
  FastestWay& ways = peer.stores.of(payload.size());
  const FastestWay::Use use = ways.next(2);
  if (!use.timed) return store(use.way == 1);
  const Deadline begin = core.system.now();
  const Ring::Sent sent = store(use.way == 1);
  if (sent != Ring::Sent::posted) return sent;
  const std::uint64_t time_ns = nanoseconds(core.system.now() - begin);
  const double factor = use.way == 1 ? past_caches_factor : 1;
  ways.took(use.way, static_cast<std::uint64_t>(factor * static_cast<double>(time_ns)));
  return sent;
}

void send_control(Core& core, Peer& peer, const RecordFields& fields, const RendezvousBody& body) {
  Record control;
  start_record(control, fields);
  std::memcpy(control.body(), &body, sizeof body);
  if (peer.control.empty()) {
    const Ring::Sent sent = post(core, peer, control, {}, Ring::Priority::control);
    if (sent == Ring::Sent::posted || sent == Ring::Sent::failed) return;
    if (sent == Ring::Sent::no_lines) ++core.counters.control_waits;
  }
  peer.control.push_back(control);
}

// Tries again what could not be posted.
void advance(Core& core, Peer& peer) {
  peer.out.poll_credits();
  tell_revokes(peer);
  while (!peer.control.empty()) {
    if (post(core, peer, peer.control.front(), {}, Ring::Priority::control) != Ring::Sent::posted)
      return;
    peer.control.pop_front();
  }
  while (SendOperation* const send = peer.queued.first()) {
    peer.queued.remove(*send);  // first: a send that completes may be gone
    bool sent = false;
    try {
      sent = try_send(core, peer, *send);
    } catch (...) {  // where a failing communicator finds it
      if (send->state == SendState::queued) peer.queued.push_front(*send);
      throw;
    }
    if (!sent) return peer.queued.push_front(*send);
  }
  while (SendOperation* const send = peer.streams.first()) {
    if (!stream(core, peer, *send)) break;
  }
  write_through(core, peer);
  peer.reads.for_each([&](ReceiveOperation& receive) { read_through(core, peer, receive); });
}

void return_credits(Core& core, Peer& peer) {
  if (peer.out.return_credits(peer.in.consumed()) != Ring::Sent::posted) {
    // Owed until it is written: without it a peer that has no line left never sends again.
    peer.wants_credit = true;
    return;
  }
  ++core.counters.credit_writes;
  peer.wants_credit = false;
}

bool poll_peer(Core& core, Peer& peer) {
  if (peer.failed) return false;
  try {
    bool worked = false;
    TakenMessage message;
    for (int taken = 0; taken < messages_per_sweep_max && peer.in.has_news(); ++taken) {
      const auto result =
          peer.in.take(message, [&](const Immediate& credits) { peer.out.take_credits(credits); });
      if (result == ReceiveRing<ProcessAtomics>::Take::nothing) break;
      if (result == ReceiveRing<ProcessAtomics>::Take::corrupt) {
        link_failed(core, peer, ErrorCode::corrupt, "a record that no rank of this version sends");
        return true;
      }
      worked = true;
      if (mutant == Mutant::release_order) peer.in.release(message);
      handle(core, peer, message);
      if (peer.failed) return true;
      peer.in.release(message);
      // Each may be a long copy, and the peer had nothing to copy until then.
      if (message.payload != nullptr && !peer.idle_out()) advance(core, peer);
      if (peer.failed) return true;
    }
    if (!worked) peer.out.note_all_read();
    if (!peer.idle_out()) advance(core, peer);
    // What went with its communicator may lie behind messages that stay.
    if (peer.freed_payload && peer.first_pinned != nullptr) unblock_ring(core, peer);
    peer.freed_payload = false;
    if (peer.credits_due()) return_credits(core, peer);
    return worked;
  } catch (const std::bad_alloc&) {
    link_failed(core, peer, ErrorCode::no_resource, base::no_memory);  // a message of it is lost
    return true;
  }
}

}  // namespace qpmesh::messaging
