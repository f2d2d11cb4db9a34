// SPDX-License-Identifier: MIT
// How memory that a device may still touch comes back to its owner.
//
// The ranks of a failed communicator mostly live, and other communicators need the links between
// them. So the owner of memory that a peer's device may write (or read) asks for it back: the peer
// posts nothing behind its answer, and what it had posted is done when the answer comes, because
// writes and records of a connection arrive in order; over several rails it answers when all of it
// is complete. Who posted itself waits for the completion.
// A peer that does not answer in time computes, or is stopped. Memory that was registered for the
// message alone is closed to its device: the peer may come to it later, but before it posts
// anything it finds a count that tells of our record (awaits_revoke). Only where that is no way the
// connection is torn down, which ends all of it.
#include <algorithm>
#include <new>
#include <type_traits>

#include "base/errors.hpp"
#include "messaging/rendezvous/rendezvous.hpp"

namespace qpmesh::messaging {

namespace {

// A revocation and another word for each number of a peer.
constexpr std::size_t control_waiting_max = 1U << 17;

// False: there is no memory to keep it in until a line is free.
bool try_to_send(Core& core, Peer& peer, RecordKind kind, const RendezvousBody& body) noexcept {
  try {
    send_control(core, peer, {.kind = kind, .body_bytes = sizeof body}, body);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

// The count tells of no record that does not come: the peer would wait for it.
bool send_revoke(Core& core, Peer& peer, const RendezvousBody& body) noexcept {
  if (!try_to_send(core, peer, RecordKind::revoke, body)) return false;
  ++peer.revokes_sent;
  tell_revokes(peer);
  return true;
}

std::span<const std::byte> memory_of(const ReceiveOperation& receive) {
  return {receive.data, receive.message_bytes};
}
std::span<const std::byte> memory_of(const SendOperation& send) { return {send.data, send.bytes}; }

// Nothing of the peer's lands any more, whatever was open to it.
void tear_down(Core& core, Peer& peer) noexcept {
  peer.connection.tear_down();
  std::erase_if(core.closed, [&](const ClosedMemory& each) { return each.rank == peer.rank; });
}

// False: the connection has to be torn down.
template <class Operation>
bool close_to_device(Core& core, Peer& peer, Operation& operation) noexcept {
  if (peer.failed || operation.state != Operation::State::revoking || !operation.opened)
    return false;
  try {
    core.closed.push_back({.rank = peer.rank,
                           .is_target = std::is_same_v<Operation, ReceiveOperation>,
                           .number = operation.number,
                           .memory = memory_of(operation)});
  } catch (const std::bad_alloc&) {
    return false;
  }
  return close_memory(peer, operation.opened);
}

// Waits for what the device or the peer still does, or ends it where nobody can be asked.
template <class Operation>
void close_later(Core& core, Peer& peer, Operation& operation, typename Operation::State state,
                 const RendezvousBody& revoked, const Error& failure) noexcept {
  operation.failure = &failure;
  enter(operation, state);
  ++core.closing;
  core.closing_until = base::after_ms(core.system, revocation_ms_max);
  const bool asks = state == Operation::State::revoking;
  if (!peer.failed && (!asks || send_revoke(core, peer, revoked))) return;
  tear_down(core, peer);
  finish(core, operation);
}

// False: writes are under way, and records could overtake them.
bool stop_writing(Peer& peer, std::uint32_t receiver_number) noexcept {
  std::erase_if(peer.preposted, [=](const Record& answer) {
    return answer.rendezvous().receiver_operation == receiver_number;
  });
  bool under_way = false;
  peer.writes.for_each([&](SendOperation& send) {
    if (send.receiver_number != receiver_number) return;
    if (send.state == SendState::writing) enter(send, SendState::written);
    send.taken_back = peer.capabilities.rails > 1 && !peer.out.completed(send.completion);
    under_way |= send.taken_back;
  });
  return !under_way;
}

// False: reads are under way.
bool stop_reading(Core& core, Peer& peer, std::uint32_t sender_number) noexcept {
  bool under_way = false;
  peer.reads.for_each([&](ReceiveOperation& receive) {
    if (receive.sender_number != sender_number) return;
    under_way = true;
    if (receive.state == ReceiveState::reading) enter(receive, ReceiveState::stopped);
  });
  if (under_way) return false;
  core.matching.for_each_unexpected([&](Unexpected& message) {
    const bool offered =
        message.kind == RecordKind::rendezvous && message.envelope.source == peer.rank;
    if (offered && message.offer.sender_operation == sender_number) discard(core, message);
  });
  return true;
}

// Nothing more of ours comes: to the number that the peer named.
void answer_revocation(Core& core, Peer& peer, const RendezvousBody& named) noexcept {
  if (!try_to_send(core, peer, RecordKind::revoked,
                   {.sender_operation = named.sender_operation,
                    .receiver_operation = named.receiver_operation}))
    link_failed(core, peer, ErrorCode::no_resource, base::no_memory);
}

}  // namespace

void close(Core& core, ReceiveOperation& receive, const Error& failure) noexcept {
  using enum ReceiveState;
  Peer& peer = core.peer(receive.message_source);
  const ReceiveState state = receive.state;
  const RendezvousBody target{.receiver_operation = receive.number};
  const bool reads = state == reading || state == stopped;
  const bool open_to_peer = state == open || state == preposted_open;
  if (open_to_peer && receive.opened && peer.capabilities.receiver_places) {
    // The peer need not go on, but it is not waited for.
    if (!peer.failed) send_revoke(core, peer, target);
    return finish(core, receive, &failure);
  }
  if ((reads || open_to_peer) && mutant != Mutant::revocation)
    return close_later(core, peer, receive, reads ? draining : revoking, target, failure);
  // Nothing of it is exposed, but the peer need not keep the answer.
  if (is_preposted(state) && !peer.failed) send_revoke(core, peer, target);
  finish(core, receive, &failure);
}

void close(Core& core, SendOperation& send, const Error& failure) noexcept {
  using enum SendState;
  Peer& peer = core.peer(send.target);
  const bool open_to_peer = send.state == readable;
  const bool writes =
      (send.state == writing || send.state == written) && !peer.out.completed(send.completion);
  if ((!open_to_peer && !writes) || mutant == Mutant::revocation)
    return finish_written(core, peer, send, &failure);
  if (open_to_peer) peer.offered.remove(send);
  close_later(core, peer, send, open_to_peer ? revoking : draining,
              {.sender_operation = send.number}, failure);
}

// Where no device of the peer's reaches memory of ours nothing is told.
void tell_revokes(Peer& peer) noexcept {
  const transport::Capabilities& can = peer.capabilities;
  if (peer.revokes_told == peer.revokes_sent) return;
  if (!can.registers_user_memory || can.receiver_places ||
      peer.out.tell_revokes(peer.revokes_sent) == Ring::Sent::posted)
    peer.revokes_told = peer.revokes_sent;
}

// The peer takes back a target (its number is the receiver's) or a source (the sender's). Its
// communicator fails, and so will ours, which ends our operation.
void handle_revoke(Core& core, Peer& peer, const RendezvousBody& body) {
  ++peer.revokes_taken;
  if (peer.control.size() >= control_waiting_max)
    return link_failed(core, peer, ErrorCode::corrupt,
                       "it takes back more memory than it can have opened");
  // The answer, or finished, will come behind the last of what is under way.
  const bool stopped = body.receiver_operation != 0
                           ? stop_writing(peer, body.receiver_operation)
                           : stop_reading(core, peer, body.sender_operation);
  if (stopped) answer_revocation(core, peer, body);
}

void finish_written(Core& core, Peer& peer, SendOperation& send, const Error* failure) noexcept {
  const std::uint32_t taken_back = send.taken_back ? send.receiver_number : 0;
  finish(core, send, failure);
  if (taken_back != 0 && !peer.failed)
    answer_revocation(core, peer, {.receiver_operation = taken_back});
}

void handle_revoked(Core& core, Peer& peer, const RendezvousBody& body) {
  const bool is_target = body.receiver_operation != 0;
  const std::uint32_t number = is_target ? body.receiver_operation : body.sender_operation;
  const auto end = [&](auto* const operation, auto revoking) {
    const bool waits = operation != nullptr && operation->state == revoking;
    waits ? finish(core, *operation) : take_late_answer(core, peer, is_target, number);
  };
  if (is_target) end(core.find_receive(peer, number), ReceiveState::revoking);
  else end(core.find_send(peer, number), SendState::revoking);
}

void take_late_answer(Core& core, const Peer& peer, bool is_target, std::uint32_t number) noexcept {
  count_stale(core);
  std::erase_if(core.closed, [&](const ClosedMemory& each) {
    return each.rank == peer.rank && each.is_target == is_target && each.number == number;
  });
}

void end_closing(Core& core, std::optional<int> rank,
                 std::optional<std::uint64_t> communicator) noexcept {
  // What its device repeats would land yet.
  if (rank && core.peer(*rank).failed &&
      std::ranges::count(core.closed, *rank, &ClosedMemory::rank) > 0)
    tear_down(core, core.peer(*rank));
  if (core.closing == 0) return;
  const auto end = [&](auto& operation, int its_rank) {
    const bool concerned = rank.value_or(its_rank) == its_rank &&
                           communicator.value_or(operation.communicator) == operation.communicator;
    if (!is_closing(operation.state) || !concerned) return;
    Peer& peer = core.peer(its_rank);
    if (!close_to_device(core, peer, operation)) tear_down(core, peer);
    finish(core, operation);
  };
  core.receives.for_each([&](ReceiveOperation& receive) { end(receive, receive.message_source); });
  core.sends.for_each([&](SendOperation& send) { end(send, send.target); });
}

// A receiver loads an open source by itself, whenever it comes to it. After this it finds that the
// offer is void, before or after its copy, and the source may go back to its owner.
void revoke_offers(Core& core, std::uint64_t communicator) noexcept {
  if (core.config.revocations == nullptr) return;
  bool offered = false;
  core.sends.for_each([&](SendOperation& send) {
    offered |= send.communicator == communicator && is_offered(send.state);
  });
  if (offered) core.config.revocations->revoke();
}

}  // namespace qpmesh::messaging
