// SPDX-License-Identifier: MIT
// Offer and answer: how the two ends agree on a way.
#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "base/bytes.hpp"
#include "messaging/rendezvous/rendezvous.hpp"

namespace qpmesh::messaging {

namespace {

// Registers memory for one message; not where that fails, and be it for want of memory to say why,
// does not pay, or may not be yet: the message goes another way. The user is told once of failures,
// because that is slower.
std::optional<transport::RemoteAddress> try_to_open(Core& core, Peer& peer,
                                                    std::span<const std::byte> memory,
                                                    transport::RegionKind kind) noexcept {
  if (!peer.capabilities.registers_for_nothing && memory.size() < core.config.register_bytes_min)
    return std::nullopt;
  const bool closed = std::ranges::any_of(core.closed, [&](const ClosedMemory& each) {
    return base::overlap(each.memory.data(), each.memory.size(), memory.data(), memory.size());
  });
  if (closed) return std::nullopt;
  try {
    try {
      return peer.transport.register_memory(memory, kind);
    } catch (const Error& error) {
      if (!std::exchange(core.registration_failed, true))
        core.log.warning("{}; large messages are copied through the rings instead", error.what());
    }
  } catch (const std::bad_alloc&) {}
  return std::nullopt;
}

template <class Body>
void set_memory(Body& body, const transport::RemoteAddress& address) noexcept {
  body.region = address.region;
  body.second_region = address.second_region;
  body.offset = address.offset;
}

}  // namespace

std::optional<transport::RemoteAddress> open_target(Core& core, Peer& peer,
                                                    ReceiveOperation& receive) {
  if (!peer.capabilities.registers_user_memory || receive.combine != nullptr) return std::nullopt;
  const std::span<std::byte> target{receive.data, receive.message_bytes};
  if (const auto address = peer.transport.address_of(target)) return address;
  return receive.opened = try_to_open(core, peer, target, transport::RegionKind::target);
}

bool close_memory(Peer& peer, std::optional<transport::RemoteAddress>& opened) noexcept {
  const bool closed = !opened || peer.transport.deregister_memory(opened->region);
  opened.reset();
  return closed;
}

void offer(Core& core, Peer& peer, SendOperation& send, Record& record) {
  const std::span source{send.data, send.bytes};
  auto address = peer.transport.address_of(source);
  bool readable =
      core.config.rendezvous == RendezvousChoice::read && peer.capabilities.registers_user_memory;
  if (readable && !address) {
    if (!send.opened)  // kept from attempt to attempt
      send.opened = try_to_open(core, peer, source, transport::RegionKind::source);
    address = send.opened;
    readable = address.has_value();
  }
  send.number = core.sends.add(send);
  OfferBody body{.sender_operation = send.number};
  start_record(record, fields_of(send, RecordKind::rendezvous, sizeof body));
  if (readable) {
    record.header().flags |= flag_source_readable;
  } else if (core.config.revocations != nullptr) {
    const bool cma = !address && peer.copies_private();
    if (address) record.header().flags |= flag_source_open;
    if (cma) record.header().flags |= flag_source_private;
    if (cma) body.offset = reinterpret_cast<std::uintptr_t>(send.data);
    body.revocations = core.config.revocations->current();
  }
  if (address) set_memory(body, *address);
  std::memcpy(record.body(), &body, sizeof body);
}

void accept_offer(Core& core, Peer& peer, ReceiveOperation& receive, const OfferBody& offered,
                  std::uint8_t flags) {
  if (receive.message_bytes == 0) [[unlikely]] {  // its sender waits for its receive alone
    core.engine.complete(receive);
    return send_control(core, peer, finished_record(receive.communicator),
                        {.sender_operation = offered.sender_operation});
  }
  const bool is_private = (flags & flag_source_private) != 0;
  if (is_private) {
    if (take_fastest_way(core, peer, receive, offered)) return;
  } else if ((flags & flag_source_open) != 0 && pull(core, peer, receive, offered, false)) {
    return;
  }
  if ((flags & flag_source_readable) != 0 && begin_read(core, peer, receive, offered)) return;
  answer(core, peer, receive, offered.sender_operation);
}

void answer(Core& core, Peer& peer, ReceiveOperation& receive, std::uint32_t sender_operation) {
  const bool preposted = sender_operation == 0;
  receive.number = core.receives.add(receive);
  if (receive.number == 0) {
    if (!preposted) core.matching.post(receive);  // where the failing communicator finds it
    return core.listener.communicator_failed(
        receive.communicator,
        {.code = ErrorCode::no_resource,
         .peer = peer.rank,
         .operation = "receive",
         .cause = "65536 large messages are on their way, or memory is missing",
         .hint = "wait for some of them before more are sent"});
  }
  RecordFields fields{.kind = RecordKind::clear_to_send,
                      .body_bytes = sizeof(RendezvousBody),
                      .communicator = receive.communicator,
                      .key = receive.message_key,
                      .total_bytes = receive.message_bytes,
                      .signature = receive.signature};
  RendezvousBody body{.sender_operation = sender_operation, .receiver_operation = receive.number};
  if (preposted) ++core.counters.preposted_receives;
  if (const auto address = open_target(core, peer, receive)) {
    enter(receive, preposted ? ReceiveState::preposted_open : ReceiveState::open);
    fields.flags = flag_zero_copy;
    set_memory(body, *address);
  } else {
    enter(receive, preposted ? ReceiveState::preposted_streaming : ReceiveState::streaming);
    ++peer.streams_in;
    move_out_of_ring(core, peer);
  }
  send_control(core, peer, fields, body);
}

void handle_clear_to_send(Core& core, Peer& peer, const Record& record) {
  const RendezvousBody body = record.rendezvous();
  if (body.sender_operation == 0) return handle_preposted(core, peer, record);
  SendOperation* const send = core.find_send(peer, body.sender_operation);
  if (send == nullptr || !is_offered(send->state)) return count_stale(core);
  proceed(core, peer, *send, record);
}

void proceed(Core& core, Peer& peer, SendOperation& send, const Record& answer) {
  const RendezvousBody body = answer.rendezvous();
  const bool zero_copy = (answer.header().flags & flag_zero_copy) != 0;
  // Where a write is a store into a mapping no device checks it: a wrong word must do no harm.
  const bool checked_by_device = !peer.capabilities.loads_peer_memory;
  if (zero_copy && !checked_by_device &&
      peer.connection.load(body.memory(), send.bytes) == nullptr) {
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
  const std::span source{send.data, send.bytes};
  const bool reachable =
      !peer.capabilities.registered_sources || send.opened || peer.transport.address_of(source);
  if (!reachable) send.opened = try_to_open(core, peer, source, transport::RegionKind::source);
  send.staged = !reachable && !send.opened;
  ++core.counters.zero_copy_sends;
  enter(send, SendState::writing);
  send.destination = body.memory();
  send.completion = 0;
  peer.writes.push_back(send);
  write_through(core, peer);
}

// Nothing of the peer comes behind it, so it ends what is being revoked, too.
void handle_finished(Core& core, Peer& peer, const Record& record) {
  const RendezvousBody body = record.rendezvous();
  if ((record.header().flags & flag_to_receiver) != 0) {
    ReceiveOperation* const receive = core.find_receive(peer, body.receiver_operation);
    const bool ends = receive != nullptr && (receive->state == ReceiveState::open ||
                                             receive->state == ReceiveState::revoking);
    return ends ? finish(core, *receive)
                : take_late_answer(core, peer, true, body.receiver_operation);
  }
  SendOperation* const send = core.find_send(peer, body.sender_operation);
  const bool ends =
      send != nullptr && (is_offered(send->state) || send->state == SendState::revoking);
  ends ? finish(core, *send) : take_late_answer(core, peer, false, body.sender_operation);
}

void finish(Core& core, SendOperation& send, const Error* failure) noexcept {
  using enum SendState;
  Peer& peer = core.peer(send.target);
  const SendState state = send.state;
  if (is_offered(state)) peer.offered.remove(send);
  if (state == streaming) peer.streams.remove(send);
  if (state == writing || state == written || state == draining) peer.writes.remove(send);
  if (is_closing(state)) {
    --core.closing;
    failure = send.failure;
  }
  close_memory(peer, send.opened);
  send.staged = send.taken_back = false;
  enter(send, idle);
  core.sends.remove(send.number);
  core.engine.complete(send, failure);
}

void finish(Core& core, ReceiveOperation& receive, const Error* failure) noexcept {
  using enum ReceiveState;
  Peer& peer = core.peer(receive.message_source);
  const ReceiveState state = receive.state;
  if (state == streaming || state == preposted_streaming) --peer.streams_in;
  if (state == reading || state == stopped || state == draining) peer.reads.remove(receive);
  if (is_closing(state)) {
    --core.closing;
    failure = receive.failure;
  }
  close_memory(peer, receive.opened);
  if (failure != nullptr) forget_time(peer, receive);
  else if (peer.long_timed > 0) note_long_end(core, peer, receive);
  enter(receive, idle);
  core.receives.remove(receive.number);
  core.engine.complete(receive, failure);
}

}  // namespace qpmesh::messaging
