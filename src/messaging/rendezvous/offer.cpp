// Offer and answer: how the two ends agree on a way.
#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "messaging/eager.hpp"
#include "messaging/failure.hpp"
#include "messaging/rendezvous/rendezvous.hpp"

namespace qpmesh::messaging {

namespace {

// Where registration fails, and be it for want of memory to say why, the message goes another way.
// The user is told once, because that is slower.
template <class Register>
std::optional<transport::RemoteAddress> try_to_register(Core& core, std::size_t bytes,
                                                        Register&& register_it) noexcept {
  if (bytes < core.config.register_bytes_min) return std::nullopt;
  try {
    try {
      return register_it();
    } catch (const Error& error) {
      if (!std::exchange(core.registration_failed, true))
        core.log.warning("{}; large messages are copied through the rings instead", error.what());
    }
  } catch (const std::bad_alloc&) {}
  return std::nullopt;
}

}  // namespace

// Registers the source for this message; not where that fails, or does not pay.
void open_source(Core& core, Peer& peer, SendOperation& send) noexcept {
  send.opened = try_to_register(core, send.bytes, [&] {
    return peer.transport.register_memory({send.data, send.bytes}, transport::RegionKind::source);
  });
}

// Where the peer may write the message; nothing: it comes through the payload ring.
std::optional<transport::RemoteAddress> open_target(Core& core, Peer& peer,
                                                    ReceiveOperation& receive) {
  if (!peer.capabilities.registers_user_memory || receive.combine != nullptr) return std::nullopt;
  const std::span<std::byte> target{receive.data, receive.message_bytes};
  if (const auto address = peer.transport.address_of(target)) return address;
  const auto address = try_to_register(core, target.size(), [&] {
    return peer.transport.register_memory(target, transport::RegionKind::target);
  });
  if (address) receive.region = address->region;
  return address;
}

void close_target(Peer& peer, ReceiveOperation& receive) noexcept {
  if (receive.region) peer.transport.deregister_memory(*receive.region);
  receive.region.reset();
}

// Leaves number 0 where none is left.
void offer(Core& core, Peer& peer, SendOperation& send, Record& record) {
  auto address = peer.transport.address_of({send.data, send.bytes});
  bool readable =
      core.config.rendezvous == Rendezvous::read && peer.capabilities.registers_user_memory;
  if (readable && !address) {
    if (!send.opened) open_source(core, peer, send);  // kept from attempt to attempt
    address = send.opened;
    readable = address.has_value();
  }
  send.number = core.sends.add(send);
  OfferBody body{.sender_operation = send.number};
  start_record(record, {.kind = RecordKind::rendezvous,
                        .body_bytes = sizeof body,
                        .communicator = send.communicator,
                        .key = send.key,
                        .total_bytes = send.bytes,
                        .signature = send.signature});
  if (readable) {
    record.header().flags |= flag_source_readable;
  } else if (core.config.revocations != nullptr) {
    const bool cma = !address && peer.copies_private();
    if (address) record.header().flags |= flag_source_open;
    if (cma) record.header().flags |= flag_source_private;
    if (cma) body.offset = reinterpret_cast<std::uintptr_t>(send.data);
    body.revocations = core.config.revocations->current();
  }
  if (address) {
    body.region = address->region;
    body.offset = address->offset;
  }
  std::memcpy(record.body(), &body, sizeof body);
}

void accept_offer(Core& core, Peer& peer, ReceiveOperation& receive, const OfferBody& offered,
                  std::uint8_t flags) {
  if ((flags & (flag_source_open | flag_source_private)) != 0 &&
      pull(core, peer, receive, offered, flags))
    return;
  if ((flags & flag_source_readable) != 0 && begin_read(core, peer, receive, offered)) return;
  answer_or_fail(core, peer, receive, offered.sender_operation);
}

void answer_or_fail(Core& core, Peer& peer, ReceiveOperation& receive,
                    std::uint32_t sender_operation) {
  if (answer(core, peer, receive, sender_operation)) return;
  core.matching.post(receive);  // where the failing communicator finds it
  fail_without_number(core, peer, receive);
}

// Opens the receive to the peer, in whichever way it can be, and says so. False: no number is left
// for it.
bool answer(Core& core, Peer& peer, ReceiveOperation& receive, std::uint32_t sender_operation) {
  receive.number = core.receives.add(receive);
  if (receive.number == 0) return false;
  RecordFields fields{.kind = RecordKind::clear_to_send,
                      .body_bytes = sizeof(RendezvousBody),
                      .communicator = receive.communicator,
                      .key = receive.message_key,
                      .total_bytes = receive.message_bytes,
                      .signature = receive.signature};
  RendezvousBody body{.sender_operation = sender_operation, .receiver_operation = receive.number};
  const bool preposted = sender_operation == 0;
  if (const auto address = open_target(core, peer, receive)) {
    enter(receive, preposted ? ReceiveState::preposted_open : ReceiveState::open);
    fields.flags = flag_zero_copy;
    body.region = address->region;
    body.offset = address->offset;
  } else {
    enter(receive, preposted ? ReceiveState::preposted_streaming : ReceiveState::streaming);
    ++peer.streams_in;
    move_out_of_ring(core, peer);
  }
  send_control(core, peer, fields, body);
  return true;
}

void handle_clear_to_send(Core& core, Peer& peer, const Record& record) {
  const RendezvousBody body = record.rendezvous();
  if (body.sender_operation == 0) return handle_announcement(core, peer, record.header(), body);
  SendOperation* const send = core.sends.find(body.sender_operation);
  if (send == nullptr || send->target != peer.rank || !is_offered(send->state)) {
    return count_stale(core);
  }
  proceed(core, peer, *send, record.header().flags, body);
}

// The receiver has answered.
void proceed(Core& core, Peer& peer, SendOperation& send, std::uint8_t flags,
             const RendezvousBody& body) {
  const bool zero_copy = (flags & flag_zero_copy) != 0;
  // Where a write is a store into a mapping, no device checks the target: another's
  // word must not make us write beside it.
  const bool checked_by_device = !peer.capabilities.loads_peer_memory;
  if (zero_copy && !checked_by_device &&
      peer.connection.load({body.region, body.offset}, send.bytes) == nullptr) {
    return link_failed(core, peer, ErrorCode::corrupt,
                       "an answer to a rendezvous that names memory which is not the peer's");
  }
  peer.offered.remove(send);
  send.receiver_number = body.receiver_operation;
  if (!zero_copy) {
    enter(send, SendState::streaming);
    peer.streams.push_back(send);
    while (peer.streams.first() == &send && stream(core, peer, send)) {}
    return;
  }
  const bool reachable = !peer.capabilities.registered_sources || send.opened ||
                         peer.transport.address_of({send.data, send.bytes});
  if (!reachable) open_source(core, peer, send);
  send.staged = !reachable && !send.opened;
  ++core.counters.zero_copy_sends;
  enter(send, SendState::writing);
  send.destination = {body.region, body.offset};
  send.completion = 0;
  peer.writes.push_back(send);
  write_through(core, peer, send);
}

void handle_finished(Core& core, Peer& peer, const Record& record) {
  const RendezvousBody body = record.rendezvous();
  if ((record.header().flags & flag_to_receiver) != 0) {
    ReceiveOperation* const receive = core.receives.find(body.receiver_operation);
    if (receive == nullptr || receive->message_source != peer.rank) return count_stale(core);
    if (receive->state == ReceiveState::recalled)
      return end_closing(core, *receive);  // nothing comes behind this
    if (receive->state != ReceiveState::open) return count_stale(core);
    finish_receive(core, *receive);
    return core.engine.complete(*receive);
  }
  SendOperation* const send = core.sends.find(body.sender_operation);
  if (send == nullptr || send->target != peer.rank) return count_stale(core);
  if (send->state == SendState::recalled) return end_closing(core, *send);
  if (!is_offered(send->state)) return count_stale(core);
  finish_send(core, *send);
  core.engine.complete(*send);
}

void finish_send(Core& core, SendOperation& send) noexcept {
  Peer& peer = core.peer(send.target);
  switch (send.state) {
    case SendState::offered:
    case SendState::readable: peer.offered.remove(send); break;
    case SendState::streaming: peer.streams.remove(send); break;
    case SendState::writing:
    case SendState::written:
    case SendState::draining: peer.writes.remove(send); break;
    case SendState::idle:
    case SendState::queued:
    case SendState::recalled: break;
  }
  close_source(peer, send);
  send.staged = false;
  enter(send, SendState::idle);
  core.sends.remove(send.number);
}

void finish_receive(Core& core, ReceiveOperation& receive) noexcept {
  Peer& peer = core.peer(receive.message_source);
  switch (receive.state) {
    case ReceiveState::streaming:
    case ReceiveState::preposted_streaming: --peer.streams_in; break;
    case ReceiveState::reading:
    case ReceiveState::stopped:
    case ReceiveState::draining: peer.reads.remove(receive); break;
    case ReceiveState::idle:
    case ReceiveState::posted:
    case ReceiveState::preposted_open:
    case ReceiveState::open:
    case ReceiveState::filling:
    case ReceiveState::released:
    case ReceiveState::settling:
    case ReceiveState::recalled: break;
  }
  close_target(peer, receive);
  enter(receive, ReceiveState::idle);
  core.receives.remove(receive.number);
}

void close_source(Peer& peer, SendOperation& send) noexcept {
  if (send.opened) peer.transport.deregister_memory(send.opened->region);
  send.opened.reset();
}

void fail_without_number(Core& core, const Peer& peer, const ReceiveOperation& receive) {
  core.listener.communicator_failed(
      receive.communicator, {.code = ErrorCode::no_resource,
                             .peer = peer.rank,
                             .operation = "receive",
                             .cause = "65536 large messages are on their way, or memory is missing",
                             .hint = "wait for some of them before more are sent"});
}

}  // namespace qpmesh::messaging
