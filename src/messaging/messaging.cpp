#include "messaging/messaging.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <exception>
#include <new>

#include "base/cpu.hpp"
#include "messaging/peer.hpp"

namespace qpmesh::messaging {

using Ring = SendRing<ProcessAtomics>;

namespace {

constexpr int messages_per_sweep_max = 32;  // then the next peer has its turn

RecordFields fields_of(const SendOperation& send, RecordKind kind, std::size_t body_bytes) noexcept {
  return {.kind = kind,
          .body_bytes = body_bytes,
          .communicator = send.communicator,
          .key = send.key,
          .total_bytes = send.bytes,
          .signature = send.signature};
}

// Most messages and most reductions are a few words: those do not pay for a call.
void copy_small(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  if (bytes == sizeof(std::uint64_t)) {
    std::memcpy(to, from, sizeof(std::uint64_t));
  } else if (bytes > 0) {
    std::memcpy(to, from, bytes);
  }
}

}  // namespace

Messaging::Messaging(progress::Engine& engine, const base::System& system, const base::Log& log,
                     Listener& listener, const MessagingConfig& config, int rank_count)
    : engine_{engine},
      system_{system},
      log_{log},
      listener_{listener},
      config_{config},
      peers_(static_cast<std::size_t>(rank_count)) {}

Messaging::~Messaging() = default;

void Messaging::add_peer(int rank, const PeerPlaces& places) {
  auto peer = std::make_unique<Peer>(rank, places, config_.eager_bytes_max);
  connected_.push_back(peer.get());
  if (std::find(transports_.begin(), transports_.end(), places.transport) == transports_.end()) {
    transports_.push_back(places.transport);
  }
  peers_[static_cast<std::size_t>(rank)] = std::move(peer);
}

void Messaging::start(SendOperation& send) noexcept { start_or_fail(send); }
void Messaging::start(ReceiveOperation& receive) noexcept { start_or_fail(receive); }

// An operation that throws is linked where the failing communicator finds it, or nowhere. Where there is no memory
// even for the failure the process ends here.
template <class Operation>
void Messaging::start_or_fail(Operation& operation) noexcept {
  try {
    begin(operation);
  } catch (const std::exception& error) {
    listener_.communicator_failed(operation.communicator,
                                  {.code = ErrorCode::no_resource, .cause = error.what()});
    const Error* const failure = failure_of(operation.communicator);
    assert(failure != nullptr);
    const bool closing =
        operation.state == Operation::State::closing;  // ends when no device touches its buffer
    if (!operation.done && !closing) engine_.complete(operation, failure);
  }
}

// ---- sending ----

void Messaging::begin(SendOperation& send) {
  Peer& peer = *peers_[static_cast<std::size_t>(send.target)];
  send.moved_bytes = 0;
  if (!failed_.empty()) {
    if (const Error* const failure = failure_of(send.communicator)) return engine_.complete(send, failure);
  }
  const bool in_order = peer.queued.empty() || mutant == Mutant::pair_order;
  if (in_order && try_send(peer, send)) return;
  send.state = SendOperation::State::queued;
  peer.queued.push_back(send);
}

// False: not now. Eager sends are done when this returns true, rendezvous have made their offer.
bool Messaging::try_send(Peer& peer, SendOperation& send) {
  if (peer.failed) return false;  // stays queued until the listener has failed its communicator
  Record record;
  if (send.bytes <= inline_bytes_max) {
    RecordFields fields = fields_of(send, RecordKind::eager_inline, send.bytes);
    fields.inline_bytes = static_cast<std::uint8_t>(send.bytes);
    start_record(record, fields);
    copy_small(record.body(), send.data, send.bytes);
    if (post(peer, record, {}, Ring::Priority::data) != Ring::Sent::posted) return false;
    engine_.complete(send);
    return true;
  }
  if (send.bytes <= peer.eager_bytes_max) {
    if (!peer.out.has_units(send.bytes)) peer.out.poll_credits();
    if (peer.out.has_units(send.bytes)) {
      start_record(record, fields_of(send, RecordKind::eager_payload, sizeof(PayloadPlace)));
      const Ring::Sent sent = post(peer, record, {send.data, send.bytes}, Ring::Priority::data);
      if (sent == Ring::Sent::posted) {
        engine_.complete(send);
        return true;
      }
      if (sent != Ring::Sent::no_units) return false;
    }
    ++counters_.degraded;
  }
  offer(peer, send, record);
  if (send.number == 0) return false;
  if (post(peer, record, {}, Ring::Priority::data) != Ring::Sent::posted) {
    sends_.remove(send.number);
    send.number = 0;
    return false;
  }
  send.state = SendOperation::State::offered;
  peer.offered.push_back(send);
  if (!peer.announcements.empty()) take_announcement(peer, send);
  return true;
}

Ring::Sent Messaging::post(Peer& peer, Record& record, std::span<const std::byte> payload,
                           Ring::Priority priority) {
  if (peer.starved) record.header().flags |= flag_want_credit;
  const Credits consumed = peer.in.consumed();
  Ring::Sent sent = peer.out.send(record, payload, priority, consumed);
  if (sent == Ring::Sent::no_lines || sent == Ring::Sent::no_units) {
    peer.out.poll_credits();
    sent = peer.out.send(record, payload, priority, consumed);
  }
  switch (sent) {
    case Ring::Sent::posted:
      ++counters_.records_sent;
      peer.starved = false;
      break;
    case Ring::Sent::failed: link_failed(peer, ErrorCode::link_failed, "the connection failed"); break;
    case Ring::Sent::no_units: peer.starved = true; break;
    case Ring::Sent::no_lines:  // the peer returns half of them unasked, which is more than any record takes
    case Ring::Sent::busy: break;
  }
  return sent;
}

// Tries again what could not be posted.
void Messaging::advance(Peer& peer) {
  peer.out.poll_credits();
  while (!peer.control.empty()) {
    if (post(peer, peer.control.front().record, {}, Ring::Priority::control) != Ring::Sent::posted) return;
    peer.control.pop_front();
  }
  while (SendOperation* const send = peer.queued.first()) {
    peer.queued.remove(*send);  // first: a send that completes may be gone
    if (!try_send(peer, *send)) {
      send->state = SendOperation::State::queued;
      peer.queued.push_front(*send);
      return;
    }
  }
  while (SendOperation* const send = peer.streams.first()) {
    if (!stream(peer, *send)) break;
  }
  peer.writes.for_each([&](SendOperation& send) { write_through(peer, send); });
  peer.reads.for_each([&](ReceiveOperation& receive) { read_through(peer, receive); });
}

void Messaging::return_credits(Peer& peer) {
  if (peer.out.return_credits(peer.in.consumed()) != Ring::Sent::posted) {
    peer.wants_credit =
        true;  // owed until it is written: without it a peer that has no line left never sends again
    return;
  }
  ++counters_.credit_writes;
  peer.wants_credit = false;
}

// ---- receiving ----

bool Messaging::spin_for(const ReceiveOperation& receive) {
  if (receive.source == any_peer) return false;
  Peer& peer = *peers_[static_cast<std::size_t>(receive.source)];
  if (!peer.capabilities.loads_peer_memory) return false;  // its records come through a device
  for (int spin = 0; spin < config_.spins_max && !receive.done; ++spin) {
    if (peer.in.has_news()) poll_peer(peer);
    else base::cpu_pause();
  }
  return receive.done;
}

bool Messaging::poll() {
  for (transport::Transport* const transport : transports_) transport->progress();
  bool worked = false;
  for (Peer* const peer : connected_) {
    if (peer->in.has_news() || peer->has_more_to_do()) worked |= poll_peer(*peer);
  }
  if (links_failed_) report_failed_links();
  return worked;
}

bool Messaging::poll_peer(Peer& peer) {
  if (peer.failed) return false;
  try {
    return sweep(peer);
  } catch (const std::bad_alloc&) {  // a message of it is lost; words as short as these need no memory
    link_failed(peer, ErrorCode::no_resource, "no memory here");
    return true;
  }
}

bool Messaging::sweep(Peer& peer) {
  bool worked = false;
  TakenMessage message;
  for (int taken = 0; taken < messages_per_sweep_max && peer.in.has_news(); ++taken) {
    const auto result =
        peer.in.take(message, [&](const Immediate& credits) { peer.out.take_credits(credits); });
    if (result == ReceiveRing<ProcessAtomics>::Take::nothing) break;
    if (result == ReceiveRing<ProcessAtomics>::Take::corrupt) {
      link_failed(peer, ErrorCode::corrupt, "a record that no rank of this version sends");
      return true;
    }
    worked = true;
    peer.out.note_answer();
    handle(peer, message);
    if (peer.failed) return true;
    // Not only behind the last message: each may be a long copy, and the peer had nothing to copy until then.
    if (!peer.idle_out()) advance(peer);
    if (peer.failed) return true;
  }
  if (!worked) {
    peer.out.note_all_read();
    if (!peer.idle_out()) advance(peer);
  }
  // Where a reply may follow, credits come after it; where nothing does, the next poll finds nothing to do.
  const auto owed = peer.out.owed(peer.in.consumed());
  peer.owes_some = worked && owed == Ring::Owed::some;
  if (peer.owes(owed) || (!worked && owed == Ring::Owed::some)) return_credits(peer);
  return worked;
}

void Messaging::handle(Peer& peer, TakenMessage& message) {
  const RecordHeader& header = message.record.header();
  peer.out.take_credits(header);
  if ((header.flags & flag_want_credit) != 0) peer.wants_credit = true;
  switch (header.kind) {
    case RecordKind::pad: break;
    case RecordKind::eager_inline:
      if (header.inline_bytes != header.total_bytes ||
          record_length(header.inline_bytes) != message.record.length()) {
        return link_failed(
            peer, ErrorCode::corrupt,
            fmt::format("an inline record of {} bytes in {}", header.total_bytes, message.record.length()));
      }
      [[fallthrough]];
    case RecordKind::eager_payload: handle_message(peer, message); break;
    case RecordKind::rendezvous:
      if (message.record.rendezvous().sender_operation == 0)
        return link_failed(peer, ErrorCode::corrupt, "an offer of no operation");
      handle_message(peer, message);
      break;
    case RecordKind::clear_to_send: handle_clear_to_send(peer, message.record); break;
    case RecordKind::segment: handle_segment(peer, message); break;
    case RecordKind::finished: handle_finished(peer, message.record); break;
    case RecordKind::withdraw: handle_withdraw(peer, message.record.rendezvous()); break;
    case RecordKind::withdrawn: handle_withdrawn(peer, message.record.rendezvous()); break;
    case RecordKind::help:
      if (message.record.length() != record_length(sizeof(HelpBody)))
        return link_failed(peer, ErrorCode::corrupt, "a request for help of another length");
      handle_help(peer, message.record.help());
      break;
    default:
      return link_failed(peer, ErrorCode::corrupt,
                         fmt::format("a record of kind {}", static_cast<int>(header.kind)));
  }
  // Whatever the message left behind is unmatched payload: the oldest of it is where the ring is still ours.
  if (message.payload != nullptr) {
    const bool pinned = peer.first_pinned != nullptr && mutant != Mutant::credit_after_last_read;
    peer.in.free_until(pinned ? peer.first_pinned->place.start : peer.in.next_unit());
    peer.out.hint_units(peer.in.consumed());
  }
}

void Messaging::handle_message(Peer& peer, const TakenMessage& message) {
  const RecordHeader& header = message.record.header();
  const Envelope envelope{.communicator = header.communicator,
                          .key = header.key,
                          .source = peer.rank,
                          .bytes = header.total_bytes};
  if (is_collective(header.key) &&
      !listener_.admit(peer.rank, header.communicator, header.key, header.signature))
    return;
  ReceiveOperation* receive = matching_.take_posted(envelope);
  // Too small for the message: told so, and the message stays first in line for the receives behind it.
  while (receive != nullptr && !receive->announced && envelope.bytes > receive->capacity_bytes) {
    receive->message_source = envelope.source;
    receive->message_key = envelope.key;
    receive->message_bytes = envelope.bytes;
    receive->truncated = true;
    engine_.complete(*receive);
    receive = matching_.take_posted(envelope);
  }
  if (receive == nullptr) return keep(peer, envelope, message);
  if (receive->announced) return confirm(peer, *receive, header);
  receive->message_source = envelope.source;
  receive->message_key = envelope.key;
  receive->message_bytes = envelope.bytes;
  if (header.kind == RecordKind::rendezvous) {
    return accept_offer(peer, *receive, message.record.rendezvous(), header.flags);
  }
  deliver(*receive, envelope,
          header.kind == RecordKind::eager_inline ? message.record.body() : message.payload);
}

void Messaging::deliver(ReceiveOperation& receive, const Envelope& envelope,
                        const std::byte* payload) noexcept {
  if (receive.combine != nullptr) {
    alignas(16) std::byte aligned[inline_bytes_max];  // an inline payload starts in the middle of a record
    if (envelope.bytes <= sizeof aligned)
      payload = static_cast<std::byte*>(std::memcpy(aligned, payload, envelope.bytes));
    receive.combine(receive.data, receive.operand, payload, envelope.bytes, receive.context);
  } else {
    copy_small(receive.data, payload, envelope.bytes);
  }
  engine_.complete(receive);
}

void Messaging::keep(Peer& peer, const Envelope& envelope, const TakenMessage& message) {
  if (failure_of(envelope.communicator) != nullptr) return;  // nobody will ask for it
  if (matching_.messages_in_use() >= config_.unexpected_messages_max) {
    return listener_.communicator_failed(
        envelope.communicator, {.code = ErrorCode::no_resource,
                                .peer = peer.rank,
                                .operation = "receive",
                                .cause = fmt::format("{} messages wait for receives that were never posted",
                                                     matching_.messages_in_use()),
                                .hint = "post receives, or raise QPMESH_UNEXPECTED_MESSAGES_MAX"});
  }
  const RecordHeader& header = message.record.header();
  Unexpected& kept = matching_.new_message();
  kept.envelope = envelope;
  kept.signature = header.signature;
  kept.kind = header.kind;
  kept.flags = header.flags;
  if (header.kind == RecordKind::eager_inline) {
    std::memcpy(kept.inline_payload, message.record.body(), envelope.bytes);
  } else if (header.kind == RecordKind::rendezvous) {
    kept.offer = message.record.rendezvous();
  } else {
    kept.ring_payload = message.payload;
    kept.place = message.place;
    (peer.last_pinned != nullptr ? peer.last_pinned->next_pinned : peer.first_pinned) = &kept;
    peer.last_pinned = &kept;
  }
  matching_.add(kept);
  if (peer.streams_in > 0) move_out_of_ring(peer);
}

void Messaging::unpin(Unexpected& message) noexcept {
  Peer& peer = *peers_[static_cast<std::size_t>(message.envelope.source)];
  Unexpected* before = nullptr;
  for (Unexpected* at = peer.first_pinned; at != &message; at = at->next_pinned) before = at;
  (before != nullptr ? before->next_pinned : peer.first_pinned) = message.next_pinned;
  if (peer.last_pinned == &message) peer.last_pinned = before;
  message.next_pinned = nullptr;
  message.ring_payload = nullptr;
  peer.in.free_until(peer.first_pinned != nullptr ? peer.first_pinned->place.start : peer.in.next_unit());
  peer.owes_some = true;  // perhaps: no record of the peer need come before it sends again
}

// A pipelined rendezvous needs the ring that unmatched payload holds.
void Messaging::move_out_of_ring(Peer& peer) {
  while (Unexpected* const message = peer.first_pinned) {
    const std::size_t bytes = message->envelope.bytes;
    if (unexpected_bytes_ + bytes > config_.unexpected_bytes_max) {
      listener_.communicator_failed(  // and discards its messages
          message->envelope.communicator,
          {.code = ErrorCode::no_resource,
           .peer = peer.rank,
           .operation = "receive",
           .cause = fmt::format("{} bytes wait for receives that were never posted, and {} more came",
                                unexpected_bytes_, bytes),
           .hint = "post receives, or raise QPMESH_UNEXPECTED_BYTES_MAX"});
      if (peer.first_pinned == message) discard(*message);  // the listener does not know the communicator
      continue;
    }
    message->copy = std::make_unique_for_overwrite<std::byte[]>(bytes);
    std::memcpy(message->copy.get(), message->ring_payload, bytes);
    unexpected_bytes_ += bytes;
    unpin(*message);
  }
}

void Messaging::begin(ReceiveOperation& receive) {
  receive.moved_bytes = 0;
  if (!failed_.empty()) {
    if (const Error* const failure = failure_of(receive.communicator))
      return engine_.complete(receive, failure);
  }
  if (Unexpected* const message = matching_.find_unexpected(receive)) {
    take_unexpected(receive, *message);
  } else {
    receive.state = ReceiveOperation::State::posted;
    matching_.post(receive);
    if (receive.capacity_bytes > inline_bytes_max && is_collective(receive.key)) announce(receive);
  }
}

void Messaging::take_unexpected(ReceiveOperation& receive, Unexpected& message) {
  const Envelope envelope = message.envelope;
  receive.message_source = envelope.source;
  receive.message_key = envelope.key;
  receive.message_bytes = envelope.bytes;
  if (envelope.bytes > receive.capacity_bytes) {
    receive.truncated = true;
    return engine_.complete(receive);
  }
  Peer& peer = *peers_[static_cast<std::size_t>(envelope.source)];
  if (message.kind == RecordKind::rendezvous) {
    const RendezvousBody body = message.offer;
    const std::uint8_t flags = message.flags;
    discard(message);
    return accept_offer(peer, receive, body, flags);
  }
  deliver(receive, envelope, message.payload());
  discard(message);
  if (peer.owes(peer.out.owed(peer.in.consumed()))) return_credits(peer);
}

void Messaging::discard(Unexpected& message) noexcept {
  if (message.ring_payload != nullptr) unpin(message);
  if (message.copy) unexpected_bytes_ -= message.envelope.bytes;
  matching_.remove(message);
  matching_.free_message(message);
}

bool Messaging::cancel(ReceiveOperation& receive) noexcept {
  if (receive.done || receive.state != ReceiveOperation::State::posted) return false;
  matching_.unpost(receive);
  receive.state = ReceiveOperation::State::idle;
  return true;
}

std::optional<Envelope> Messaging::probe(const ReceiveOperation& pattern) const noexcept {
  const Unexpected* const message = matching_.find_unexpected(pattern);
  if (message == nullptr) return std::nullopt;
  return message->envelope;
}

void Messaging::recheck_unexpected(std::uint64_t communicator, std::uint32_t operation) {
  matching_.for_each_unexpected_collective([&](Unexpected& message) {
    const Envelope& envelope = message.envelope;
    if (envelope.communicator != communicator || operation_of(envelope.key) != operation) return;
    if (!listener_.admit(envelope.source, communicator, envelope.key, message.signature)) discard(message);
  });
}

bool Messaging::delivered(const std::function<bool(int rank)>& is_there) const {
  bool all = true;
  for (Peer* const peer : connected_) {
    if (!peer->failed && is_there(peer->rank) && !peer->connection.delivered()) all = false;
  }
  return all;
}

bool Messaging::flush() {
  bool all = true;
  for (Peer* const peer : connected_) {
    if (!peer->failed && !peer->idle_out()) {
      advance(*peer);
      all &= peer->failed || peer->idle_out();
    }
  }
  return all;
}

Messaging::Counters Messaging::counters() const noexcept {
  Counters counters = counters_;
  for (const Peer* const peer : connected_) counters.partial_records += peer->in.partial_records();
  return counters;
}

}  // namespace qpmesh::messaging
