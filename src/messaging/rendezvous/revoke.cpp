// How memory that a device may still touch comes back to its owner.
//
// The ranks of a failed communicator mostly live, and other communicators need the links between
// them. So the owner of memory that a peer's device may write (or read) asks for it back: the peer
// posts nothing behind its answer, and what it had posted is done when the answer comes, because
// writes and records of a connection arrive in order. Who posted itself waits for the completion.
// Only where that takes too long the connection is torn down, which ends all of it.
#include <algorithm>
#include <new>

#include "messaging/eager.hpp"
#include "messaging/failure.hpp"
#include "messaging/rendezvous/rendezvous.hpp"

namespace qpmesh::messaging {

namespace {

// A withdrawal and another word for each number of a peer.
constexpr std::size_t control_waiting_max = 1U << 17;

template <class Operation>
void begin_closing(Core& core, Operation& operation, typename Operation::State state,
                   const Error& failure) noexcept {
  operation.failure = &failure;
  enter(operation, state);
  ++core.closing;
  core.closing_until = base::after_ms(core.system, withdrawal_ms_max);
}

// False: there is no memory to keep it in until a line is free.
bool send_withdrawal(Core& core, Peer& peer, RecordKind kind, std::uint32_t sender_operation,
                     std::uint32_t receiver_operation) noexcept {
  try {
    send_control(core, peer, {.kind = kind, .body_bytes = sizeof(RendezvousBody)},
                 {.sender_operation = sender_operation, .receiver_operation = receiver_operation});
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void stop_writing(Peer& peer, std::uint32_t receiver_number) noexcept {
  std::erase_if(peer.announcements, [=](const Announcement& announcement) {
    return announcement.body.receiver_operation == receiver_number;
  });
  peer.writes.for_each([&](SendOperation& send) {
    if (send.receiver_number == receiver_number && send.state == SendState::writing)
      enter(send, SendState::written);
  });
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

// concerns(communicator, rank): which operations are ended.
template <class F>
void tear_down_closing(Core& core, F&& concerns) noexcept {
  if (core.closing == 0) return;
  const auto end = [&](auto& operation, int rank) {
    if (!is_closing(operation.state) || !concerns(operation.communicator, rank)) return;
    core.peer(rank).connection.tear_down();
    end_closing(core, operation);
  };
  core.receives.for_each([&](ReceiveOperation& receive) { end(receive, receive.message_source); });
  core.sends.for_each([&](SendOperation& send) { end(send, send.target); });
}

}  // namespace

void close(Core& core, ReceiveOperation& receive, const Error& failure) noexcept {
  Peer& peer = core.peer(receive.message_source);
  const bool preposted = is_preposted(receive.state);
  const bool open =
      receive.state == ReceiveState::open || receive.state == ReceiveState::preposted_open;
  const bool reading =
      receive.state == ReceiveState::reading || receive.state == ReceiveState::stopped;
  if ((!open && !reading) || mutant == Mutant::withdrawal) {
    // Nothing of it is exposed, but the peer need not keep the answer.
    if (preposted && !peer.failed)
      send_withdrawal(core, peer, RecordKind::withdraw, 0, receive.number);
    finish_receive(core, receive);
    return core.engine.complete(receive, &failure);
  }
  begin_closing(core, receive, reading ? ReceiveState::draining : ReceiveState::recalled, failure);
  if (!peer.failed &&
      (reading || send_withdrawal(core, peer, RecordKind::withdraw, 0, receive.number)))
    return;
  peer.connection.tear_down();
  end_closing(core, receive);
}

void close(Core& core, SendOperation& send, const Error& failure) noexcept {
  Peer& peer = core.peer(send.target);
  const bool writing = send.state == SendState::writing || send.state == SendState::written;
  const bool readable = send.state == SendState::readable;
  const bool untouched = !readable && (!writing || peer.out.completed(send.completion));
  if (untouched || mutant == Mutant::withdrawal) {
    finish_send(core, send);
    return core.engine.complete(send, &failure);
  }
  if (readable) peer.offered.remove(send);
  begin_closing(core, send, readable ? SendState::recalled : SendState::draining, failure);
  if (!peer.failed &&
      (writing || send_withdrawal(core, peer, RecordKind::withdraw, send.number, 0)))
    return;
  peer.connection.tear_down();
  end_closing(core, send);
}

// The peer takes back a target (its number is the receiver's) or a source (the sender's). Its
// communicator fails, and so will ours, which ends our operation.
void handle_withdraw(Core& core, Peer& peer, const RendezvousBody& body) {
  if (peer.control.size() >= control_waiting_max)
    return link_failed(core, peer, ErrorCode::corrupt,
                       "it takes back more memory than it can have opened");
  if (body.receiver_operation != 0) stop_writing(peer, body.receiver_operation);
  else if (!stop_reading(core, peer, body.sender_operation))
    return;  // finished will come behind the last read
  if (!send_withdrawal(core, peer, RecordKind::withdrawn, body.sender_operation,
                       body.receiver_operation))
    link_failed(core, peer, ErrorCode::no_resource, "no memory here");
}

void handle_withdrawn(Core& core, Peer& peer, const RendezvousBody& body) {
  if (body.receiver_operation != 0) {
    ReceiveOperation* const receive = core.receives.find(body.receiver_operation);
    if (receive == nullptr || receive->message_source != peer.rank ||
        receive->state != ReceiveState::recalled)
      return count_stale(core);
    return end_closing(core, *receive);
  }
  SendOperation* const send = core.sends.find(body.sender_operation);
  if (send == nullptr || send->target != peer.rank || send->state != SendState::recalled)
    return count_stale(core);
  end_closing(core, *send);
}

void end_closing(Core& core, ReceiveOperation& receive) noexcept {
  --core.closing;
  finish_receive(core, receive);
  core.engine.complete(receive, receive.failure);
}

void end_closing(Core& core, SendOperation& send) noexcept {
  --core.closing;
  finish_send(core, send);
  core.engine.complete(send, send.failure);
}

void tear_down_with(Core& core, int rank) noexcept {
  tear_down_closing(core, [=](std::uint64_t, int its_rank) { return its_rank == rank; });
}

void tear_down_overdue(Core& core) noexcept {
  if (core.closing > 0 && core.system.now() >= core.closing_until)
    tear_down_closing(core, [](std::uint64_t, int) { return true; });
}

void tear_down_communicator(Core& core, std::uint64_t communicator) noexcept {
  tear_down_closing(
      core, [=](std::uint64_t its_communicator, int) { return its_communicator == communicator; });
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
