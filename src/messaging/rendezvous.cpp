// Large messages: the sender offers, the receiver answers how (inside collectives, before the offer: announcements.cpp).
//
//   pull        the offer names the source, and the receiver can load it, or copy it out of the sender's private memory: it does,
//               and says finished (pull.cpp)
//   read        the offer names the source, and the receiver's device reads it: an option (MessagingConfig::rendezvous)
//   write       the receiver opens its buffer; the sender writes into it and says finished behind the last
//               write
//   pipelined   the sender streams segments through the payload ring; works everywhere
//
// Who may touch the buffers: the source belongs to the operation until it is done (pull and read: until
// finished comes; write: until the last write's completion). The target is written by the peer only between
// clear_to_send and finished, and by our own device until the completion of the last read.
#include <algorithm>
#include <cstring>
#include <utility>

#include "messaging/peer.hpp"

namespace qpmesh::messaging {

using Ring = SendRing<ProcessAtomics>;

// Leaves number 0 where none is left.
void Messaging::offer(Peer& peer, SendOperation& send, Record& record) {
  auto address = peer.transport.address_of({send.data, send.bytes});
  send.readable = config_.rendezvous == Rendezvous::read && peer.capabilities.reads_peer_memory;
  if (send.readable && !address) {
    if (!send.opened) open_source(peer, send);  // kept from attempt to attempt
    address = send.opened;
    send.readable = address.has_value();
  }
  send.number = sends_.add(send);
  RendezvousBody body{.sender_operation = send.number};
  start_record(record, {.kind = RecordKind::rendezvous,
                        .body_bytes = sizeof body,
                        .communicator = send.communicator,
                        .key = send.key,
                        .total_bytes = send.bytes,
                        .signature = send.signature});
  if (send.readable) {
    record.header().flags |= flag_source_readable;
  } else if (config_.revocations != nullptr) {
    const bool cma = !address && peer.capabilities.copies_private_memory;
    if (address) record.header().flags |= flag_source_open;
    if (cma) record.header().flags |= flag_source_private;
    if (cma) body.offset = reinterpret_cast<std::uintptr_t>(send.data);
    body.place = config_.revocations->load(std::memory_order_relaxed);
  }
  if (address) {
    body.region = address->region;
    body.offset = address->offset;
  }
  std::memcpy(record.body(), &body, sizeof body);
}

// Registers the source for this message; not where that fails, or does not pay.
void Messaging::open_source(Peer& peer, SendOperation& send) noexcept {
  send.opened = try_to_register(send.bytes, [&] {
    return peer.transport.register_source({send.data, send.bytes});
  });
}

void Messaging::close_source(Peer& peer, SendOperation& send) noexcept {
  if (send.opened) peer.transport.deregister_memory(send.opened->region);
  send.opened.reset();
}

void Messaging::send_control(Peer& peer, const RecordFields& fields, const RendezvousBody& body) {
  Control control;
  start_record(control.record, fields);
  std::memcpy(control.record.body(), &body, sizeof body);
  if (peer.control.empty()) {
    const Ring::Sent sent = post(peer, control.record, {}, Ring::Priority::control);
    if (sent == Ring::Sent::posted || sent == Ring::Sent::failed) return;
    if (sent == Ring::Sent::no_lines) ++counters_.control_waits;
  }
  peer.control.push_back(control);
}

// ---- receiver ----

// Where registration fails, and be it for want of memory to say why, the message goes another way. The user is told once, because
// that is slower.
template <class Register>
std::optional<transport::RemoteAddress> Messaging::try_to_register(std::size_t bytes,
                                                                   Register&& register_it) noexcept {
  if (bytes < config_.register_bytes_min) return std::nullopt;
  try {
    try {
      return register_it();
    } catch (const Error& error) {
      if (!std::exchange(registration_failed_, true))
        log_.warning("{}; large messages are copied through the rings instead", error.what());
    }
  } catch (const std::bad_alloc&) {}
  return std::nullopt;
}

void Messaging::accept_offer(Peer& peer, ReceiveOperation& receive, const RendezvousBody& offered,
                             std::uint8_t flags) {
  if ((flags & (flag_source_open | flag_source_private)) != 0 && pull(peer, receive, offered, flags)) return;
  if ((flags & flag_source_readable) != 0 && begin_read(peer, receive, offered)) return;
  if (answer(peer, receive, offered.sender_operation)) return;
  matching_.post(receive);  // where the failing communicator finds it
  fail_without_number(peer, receive);
}

// Opens the receive to the peer, in whichever way it can be, and says so. False: no number is left for it.
bool Messaging::answer(Peer& peer, ReceiveOperation& receive, std::uint32_t sender_operation) {
  receive.number = receives_.add(receive);
  if (receive.number == 0) return false;
  RecordFields fields{.kind = RecordKind::clear_to_send,
                      .body_bytes = sizeof(RendezvousBody),
                      .communicator = receive.communicator,
                      .key = receive.message_key,
                      .total_bytes = receive.message_bytes,
                      .signature = receive.signature};
  RendezvousBody body{.sender_operation = sender_operation, .receiver_operation = receive.number};
  if (const auto address = open_target(peer, receive)) {
    receive.state = ReceiveOperation::State::open;
    fields.flags = flag_zero_copy;
    body.region = address->region;
    body.offset = address->offset;
  } else {
    receive.state = ReceiveOperation::State::streaming;
    ++peer.streams_in;
    move_out_of_ring(peer);
  }
  send_control(peer, fields, body);
  return true;
}

// Where the peer may write the message; nothing: it comes through the payload ring.
std::optional<transport::RemoteAddress> Messaging::open_target(Peer& peer, ReceiveOperation& receive) {
  if (!peer.capabilities.writes_user_memory || receive.combine != nullptr) return std::nullopt;
  const std::span<std::byte> target{receive.data, receive.message_bytes};
  if (const auto address = peer.transport.address_of(target)) return address;
  const auto address = try_to_register(target.size(), [&] { return peer.transport.register_target(target); });
  if (address) receive.region = address->region;
  return address;
}

void Messaging::close_target(Peer& peer, ReceiveOperation& receive) noexcept {
  if (receive.region) peer.transport.deregister_memory(*receive.region);
  receive.region.reset();
}

void Messaging::fail_without_number(const Peer& peer, const ReceiveOperation& receive) {
  listener_.communicator_failed(receive.communicator,
                                {.code = ErrorCode::no_resource,
                                 .peer = peer.rank,
                                 .operation = "receive",
                                 .cause = "65536 large messages are on their way, or memory is missing",
                                 .hint = "wait for some of them before more are sent"});
}

// False: answer the offer in another way.
bool Messaging::begin_read(Peer& peer, ReceiveOperation& receive, const RendezvousBody& offered) {
  if (!peer.capabilities.reads_peer_memory || receive.message_bytes == 0) return false;
  if (!open_target(peer, receive)) return false;
  receive.number = receives_.add(receive);  // where the failing communicator finds it
  if (receive.number == 0) {
    close_target(peer, receive);
    return false;
  }
  receive.state = ReceiveOperation::State::reading;
  receive.sender_number = offered.sender_operation;
  receive.origin = {offered.region, offered.offset};
  receive.told = 0;
  ++counters_.reads;
  peer.reads.push_back(receive);
  read_through(peer, receive);
  return true;
}

// Posts what the connection takes, then waits for the completion and tells the sender. True: nothing is left to do.
bool Messaging::read_through(Peer& peer, ReceiveOperation& receive) {
  while (receive.state == ReceiveOperation::State::reading && receive.moved_bytes < receive.message_bytes) {
    if (!peer.out.has_room_behind(receive.told)) return false;
    const std::size_t bytes =
        std::min(peer.capabilities.write_bytes_max, receive.message_bytes - receive.moved_bytes);
    const Ring::Sent sent =
        peer.out.read({receive.data + receive.moved_bytes, bytes}, receive.region,
                      {receive.origin.region, receive.origin.offset + receive.moved_bytes}, receive.told);
    if (sent == Ring::Sent::failed) {
      link_failed(peer, ErrorCode::link_failed, "the connection failed");
      return false;
    }
    if (sent != Ring::Sent::posted) return false;
    receive.moved_bytes += bytes;
  }
  if (!peer.out.completed(receive.told)) return false;
  const RendezvousBody body{.sender_operation = receive.sender_number};
  const RecordFields fields = finished_record(receive.communicator);
  if (receive.state == ReceiveOperation::State::closing) {
    end_closing(receive);
  } else if (receive.moved_bytes < receive.message_bytes) {
    leave_read(peer, receive);  // stopped: its communicator fails, and ends it
  } else {
    finish_receive(receive);
    engine_.complete(receive);
  }
  send_control(peer, fields, body);
  return true;
}

void Messaging::handle_segment(Peer& peer, const TakenMessage& message) {
  const RendezvousBody body = message.record.rendezvous();
  ReceiveOperation* const receive = receives_.find(body.receiver_operation);
  // Still announced: its offer was dropped, because its signature is not ours.
  if (receive == nullptr || receive->announced) return count_stale();
  const std::size_t bytes = message.record.header().total_bytes;
  const bool expected = receive->message_source == peer.rank &&
                        receive->state == ReceiveOperation::State::streaming &&
                        bytes <= receive->message_bytes - receive->moved_bytes;
  if (!expected)
    return link_failed(peer, ErrorCode::corrupt, "a segment of a message that was not asked for");
  std::byte* const target = receive->data + receive->moved_bytes;
  if (receive->combine != nullptr) {
    const std::byte* const operand =
        receive->operand != nullptr ? receive->operand + receive->moved_bytes : nullptr;
    receive->combine(target, operand, message.payload, bytes, receive->context);
  } else {
    std::memcpy(target, message.payload, bytes);
  }
  receive->moved_bytes += bytes;
  if (receive->moved_bytes < receive->message_bytes) return;
  finish_receive(*receive);
  engine_.complete(*receive);
}

void Messaging::handle_finished(Peer& peer, const Record& record) {
  const RendezvousBody body = record.rendezvous();
  if ((record.header().flags & flag_to_receiver) != 0) {
    ReceiveOperation* const receive = receives_.find(body.receiver_operation);
    if (receive == nullptr || receive->message_source != peer.rank) return count_stale();
    if (receive->is_taken_back()) return end_closing(*receive);  // nothing comes behind this
    if (receive->announced || receive->state != ReceiveOperation::State::open) return count_stale();
    finish_receive(*receive);
    return engine_.complete(*receive);
  }
  SendOperation* const send = sends_.find(body.sender_operation);
  if (send == nullptr || send->target != peer.rank) return count_stale();
  if (send->is_taken_back()) return end_closing(*send);
  if (send->state != SendOperation::State::offered) return count_stale();
  finish_send(*send);
  engine_.complete(*send);
}

void Messaging::leave_read(Peer& peer, ReceiveOperation& receive) noexcept {
  if (receive.sender_number != 0) peer.reads.remove(receive);
  receive.sender_number = 0;
}

void Messaging::finish_receive(ReceiveOperation& receive) noexcept {
  Peer& peer = *peers_[static_cast<std::size_t>(receive.message_source)];
  if (receive.state == ReceiveOperation::State::streaming) --peer.streams_in;
  leave_read(peer, receive);
  close_target(peer, receive);
  receive.state = ReceiveOperation::State::idle;
  receives_.remove(receive.number);
}

// ---- sender ----

void Messaging::handle_clear_to_send(Peer& peer, const Record& record) {
  const RendezvousBody body = record.rendezvous();
  if (body.sender_operation == 0) return handle_announcement(peer, record.header(), body);
  SendOperation* const send = sends_.find(body.sender_operation);
  if (send == nullptr || send->target != peer.rank || send->state != SendOperation::State::offered) {
    return count_stale();
  }
  proceed(peer, *send, record.header().flags, body);
}

// The receiver has answered.
void Messaging::proceed(Peer& peer, SendOperation& send, std::uint8_t flags, const RendezvousBody& body) {
  const bool zero_copy = (flags & flag_zero_copy) != 0;
  // Where a write is a store into a mapping, no device checks the target: another's
  // word must not make us write beside it.
  const bool checked_by_device = !peer.capabilities.loads_peer_memory;
  if (zero_copy && !checked_by_device &&
      peer.connection.load({body.region, body.offset}, send.bytes) == nullptr) {
    return link_failed(peer, ErrorCode::corrupt,
                       "an answer to a rendezvous that names memory which is not the peer's");
  }
  peer.offered.remove(send);
  send.readable = false;
  send.receiver_number = body.receiver_operation;
  if (!zero_copy) {
    send.state = SendOperation::State::streaming;
    peer.streams.push_back(send);
    while (peer.streams.first() == &send && stream(peer, send)) {}
    return;
  }
  const bool reachable = !peer.capabilities.registered_sources || send.opened ||
                         peer.transport.address_of({send.data, send.bytes});
  if (!reachable) open_source(peer, send);
  send.staged = !reachable && !send.opened;
  ++counters_.zero_copy_sends;
  send.state = SendOperation::State::writing;
  send.destination = {body.region, body.offset};
  send.told = 0;
  peer.writes.push_back(send);
  write_through(peer, send);
}

// One segment. False: nothing can be posted now.
bool Messaging::stream(Peer& peer, SendOperation& send) {
  const std::size_t bytes = std::min(peer.out.segment_bytes_max(), send.bytes - send.moved_bytes);
  if (!peer.out.has_units(bytes)) {
    peer.out.poll_credits();
    if (!peer.out.has_units(bytes)) {
      peer.starved = true;
      return false;
    }
  }
  Record record;
  const RendezvousBody body{.sender_operation = send.number, .receiver_operation = send.receiver_number};
  start_record(record, {.kind = RecordKind::segment,
                        .body_bytes = sizeof body,
                        .communicator = send.communicator,
                        .key = send.key,
                        .total_bytes = bytes});
  std::memcpy(record.body(), &body, sizeof body);
  if (post(peer, record, {send.data + send.moved_bytes, bytes}, Ring::Priority::data) != Ring::Sent::posted)
    return false;
  ++counters_.segments_sent;
  send.moved_bytes += bytes;
  if (send.moved_bytes == send.bytes) {
    finish_send(send);
    engine_.complete(send);
  }
  return true;
}

// Posts what the connection takes of a zero-copy message, then finished behind it, then waits for the
// completion: the device reads the source until then. True: nothing is left to do.
bool Messaging::write_through(Peer& peer, SendOperation& send) {
  const auto source_region = send.opened ? std::optional{send.opened->region} : std::nullopt;
  while (send.state == SendOperation::State::writing) {
    if (!peer.out.has_room_behind(send.told)) return false;
    const std::size_t bytes_max =
        send.staged ? peer.out.staged_bytes_max() : peer.capabilities.write_bytes_max;
    const std::size_t bytes = std::min(bytes_max, send.bytes - send.moved_bytes);
    const transport::RemoteAddress target{send.destination.region,
                                          send.destination.offset + send.moved_bytes};
    const Ring::Sent sent = peer.out.write({send.data + send.moved_bytes, bytes}, source_region, target,
                                           send.staged ? Ring::From::staging : Ring::From::source, send.told);
    if (sent == Ring::Sent::failed) {
      link_failed(peer, ErrorCode::link_failed, "the connection failed");
      return false;
    }
    if (sent != Ring::Sent::posted) return false;
    send.moved_bytes += bytes;
    if (send.moved_bytes < send.bytes) continue;
    send.state = SendOperation::State::completing;
    send_control(peer, finished_record(send.communicator, flag_to_receiver),
                 {.sender_operation = send.number, .receiver_operation = send.receiver_number});
  }
  if (!peer.out.completed(send.told)) return false;
  if (send.state == SendOperation::State::closing) {
    end_closing(send);
    return true;
  }
  finish_send(send);
  engine_.complete(send);
  return true;
}

void Messaging::finish_send(SendOperation& send) noexcept {
  Peer& peer = *peers_[static_cast<std::size_t>(send.target)];
  switch (send.state) {
    case SendOperation::State::offered: peer.offered.remove(send); break;
    case SendOperation::State::streaming: peer.streams.remove(send); break;
    case SendOperation::State::writing:
    case SendOperation::State::completing: peer.writes.remove(send); break;
    case SendOperation::State::closing:
      if (!send.readable) peer.writes.remove(send);
      break;
    default: break;
  }
  close_source(peer, send);
  send.staged = false;
  send.state = SendOperation::State::idle;
  sends_.remove(send.number);
}

}  // namespace qpmesh::messaging
