// How memory that a device may still touch comes back to its owner.
//
// The ranks of a failed communicator mostly live, and other communicators need the links between them. So the owner of memory
// that a peer's device may write (or read) asks for it back: the peer posts nothing behind its answer, and what it had posted
// is done when the answer comes, because writes and records of a connection arrive in order. Who posted itself waits
// for the completion. Only where that takes too long the connection is severed, which ends all of it.
#include <algorithm>
#include <new>
#include <type_traits>
#include <utility>

#include "messaging/peer.hpp"

namespace qpmesh::messaging {

namespace {

// A withdrawal and another word for each number of a peer.
constexpr std::size_t control_waiting_max = 1U << 17;

}  // namespace

void Messaging::close(ReceiveOperation& receive, const Error& failure) noexcept {
  Peer& peer = *peers_[static_cast<std::size_t>(receive.message_source)];
  const bool announced = std::exchange(receive.announced, false);
  const bool open = receive.state == ReceiveOperation::State::open;
  const bool reading = receive.sender_number != 0;
  if ((!open && !reading) || mutant == Mutant::withdrawal) {
    // Nothing of it is exposed, but the peer need not keep the announcement.
    if (announced && !peer.failed) send_withdrawal(peer, RecordKind::withdraw, 0, receive.number);
    finish_receive(receive);
    return engine_.complete(receive, &failure);
  }
  begin_closing(receive, failure);
  if (!peer.failed && (reading || send_withdrawal(peer, RecordKind::withdraw, 0, receive.number))) return;
  peer.connection.sever();
  end_closing(receive);
}

void Messaging::close(SendOperation& send, const Error& failure) noexcept {
  Peer& peer = *peers_[static_cast<std::size_t>(send.target)];
  const bool writing =
      send.state == SendOperation::State::writing || send.state == SendOperation::State::completing;
  const bool read_by_peer = send.state == SendOperation::State::offered && send.readable;
  const bool untouched = !read_by_peer && (!writing || peer.out.completed(send.told));
  if (untouched || mutant == Mutant::withdrawal) {
    finish_send(send);
    return engine_.complete(send, &failure);
  }
  if (read_by_peer) peer.offered.remove(send);
  begin_closing(send, failure);
  if (!peer.failed && (writing || send_withdrawal(peer, RecordKind::withdraw, send.number, 0))) return;
  peer.connection.sever();
  end_closing(send);
}

template <class Operation>
void Messaging::begin_closing(Operation& operation, const Error& failure) noexcept {
  operation.failure = &failure;
  operation.state = Operation::State::closing;
  ++closing_;
  closing_until_ = base::after_ms(system_, withdrawal_ms_max);
}

// False: there is no memory to keep it in until a line is free.
bool Messaging::send_withdrawal(Peer& peer, RecordKind kind, std::uint32_t sender_operation,
                                std::uint32_t receiver_operation) noexcept {
  try {
    send_control(peer, {.kind = kind, .body_bytes = sizeof(RendezvousBody)},
                 {.sender_operation = sender_operation, .receiver_operation = receiver_operation});
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

// The peer takes back a target (its number is the receiver's) or a source (the sender's). Its communicator fails, and so will
// ours, which ends our operation.
void Messaging::handle_withdraw(Peer& peer, const RendezvousBody& body) {
  if (peer.control.size() >= control_waiting_max)
    return link_failed(peer, ErrorCode::corrupt, "it takes back more memory than it can have opened");
  if (body.receiver_operation != 0) stop_writing(peer, body.receiver_operation);
  else if (!stop_reading(peer, body.sender_operation)) return;  // finished will come behind the last read
  if (!send_withdrawal(peer, RecordKind::withdrawn, body.sender_operation, body.receiver_operation))
    link_failed(peer, ErrorCode::no_resource, "no memory here");
}

void Messaging::stop_writing(Peer& peer, std::uint32_t receiver_number) noexcept {
  std::erase_if(peer.announcements, [=](const Announcement& announcement) {
    return announcement.body.receiver_operation == receiver_number;
  });
  peer.writes.for_each([&](SendOperation& send) {
    if (send.receiver_number == receiver_number && send.state == SendOperation::State::writing)
      send.state = SendOperation::State::completing;
  });
}

// False: reads are under way.
bool Messaging::stop_reading(Peer& peer, std::uint32_t sender_number) noexcept {
  bool under_way = false;
  peer.reads.for_each([&](ReceiveOperation& receive) {
    if (receive.sender_number != sender_number) return;
    under_way = true;
    if (receive.state == ReceiveOperation::State::reading) receive.state = ReceiveOperation::State::stopped;
  });
  if (under_way) return false;
  matching_.for_each_unexpected([&](Unexpected& message) {
    const bool offered = message.kind == RecordKind::rendezvous && message.envelope.source == peer.rank;
    if (offered && message.offer.sender_operation == sender_number) discard(message);
  });
  return true;
}

void Messaging::handle_withdrawn(Peer& peer, const RendezvousBody& body) {
  if (body.receiver_operation != 0) {
    ReceiveOperation* const receive = receives_.find(body.receiver_operation);
    if (receive == nullptr || receive->message_source != peer.rank || !receive->is_taken_back())
      return count_stale();
    return end_closing(*receive);
  }
  SendOperation* const send = sends_.find(body.sender_operation);
  if (send == nullptr || send->target != peer.rank || !send->is_taken_back()) return count_stale();
  end_closing(*send);
}

void Messaging::end_closing(ReceiveOperation& receive) noexcept {
  --closing_;
  finish_receive(receive);
  engine_.complete(receive, receive.failure);
}

void Messaging::end_closing(SendOperation& send) noexcept {
  --closing_;
  finish_send(send);
  engine_.complete(send, send.failure);
}

std::chrono::microseconds Messaging::sleep_max() const noexcept {
  if (closing_ == 0) return std::chrono::microseconds::max();
  const auto left = std::chrono::ceil<std::chrono::microseconds>(closing_until_ - system_.now());
  return std::max(left, std::chrono::microseconds{0});
}

// concerns(communicator, rank): which operations are ended.
template <class F>
void Messaging::sever_closing(F&& concerns) noexcept {
  if (closing_ == 0) return;
  const auto end = [&](auto& operation, int rank) {
    using State = typename std::remove_reference_t<decltype(operation)>::State;
    if (operation.state != State::closing || !concerns(operation.communicator, rank)) return;
    peers_[static_cast<std::size_t>(rank)]->connection.sever();
    end_closing(operation);
  };
  receives_.for_each([&](ReceiveOperation& receive) { end(receive, receive.message_source); });
  sends_.for_each([&](SendOperation& send) { end(send, send.target); });
}

void Messaging::sever_with(int rank) noexcept {
  sever_closing([=](std::uint64_t, int its_rank) { return its_rank == rank; });
}

void Messaging::sever_overdue() noexcept {
  if (closing_ > 0 && system_.now() >= closing_until_) sever_closing([](std::uint64_t, int) { return true; });
}

void Messaging::sever(std::uint64_t communicator) noexcept {
  sever_closing([=](std::uint64_t its_communicator, int) { return its_communicator == communicator; });
}

}  // namespace qpmesh::messaging
