// How operations end when they cannot succeed: links that fail, communicators that fail, and who is still awaited.
#include <algorithm>
#include <new>
#include <type_traits>
#include <utility>

#include "messaging/peer.hpp"

namespace qpmesh::messaging {

// The listener hears of it at the end of poll: it ends operations, some of
// which are just being started or moved.
void Messaging::link_failed(Peer& peer, ErrorCode code, std::string cause) {
  if (peer.failed) return;
  peer.failed = true;
  peer.failure = {.code = code, .peer = peer.rank, .cause = std::move(cause)};
  // What the connection saw is nearer to the cause than what became of it.
  if (const transport::Fault* const fault = peer.connection.fault();
      fault != nullptr && code == ErrorCode::link_failed) {
    peer.failure.cause = fault->detail;
    peer.failure.system_error = fault->system_error;
    peer.failure.hint = fault->hint;
  }
  links_failed_ = true;
}

void Messaging::look_at_links() {
  for (transport::Transport* const transport : transports_) transport->look_around();
  for (Peer* const peer : connected_) {
    if (peer->failed || peer->connection.fault() == nullptr) continue;
    for (std::uint32_t sweep = 0; sweep < record_ring_lines && poll_peer(*peer); ++sweep) {}
    link_failed(*peer, ErrorCode::link_failed, "the connection failed");
  }
  if (links_failed_) report_failed_links();
  if (closing_ > 0 && system_.now() >= closing_until_) sever_closing([](std::uint64_t, int) { return true; });
}

void Messaging::give_up(int rank) noexcept {
  Peer& peer = *peers_[static_cast<std::size_t>(rank)];
  peer.failed = peer.reported = true;
  sever_closing([=](std::uint64_t, int its_rank) { return its_rank == rank; });
}

void Messaging::report_failed_links() {
  links_failed_ = false;
  for (Peer* const peer : connected_) {
    if (!peer->failed || peer->reported) continue;
    peer->reported = true;
    sever_closing([=](std::uint64_t, int rank) { return rank == peer->rank; });
    listener_.link_failed(peer->failure);
  }
}

const Error* Messaging::failure_of(std::uint64_t communicator) const noexcept {
  for (const auto& [id, failure] : failed_) {
    if (id == communicator) return failure;
  }
  return nullptr;
}

void Messaging::fail(std::uint64_t communicator, const Error& failure) {
  failed_.emplace_back(communicator, &failure);
  discard_messages(communicator);
  revoke_offers(communicator);
  matching_.for_each_posted([&](ReceiveOperation& receive) {
    if (receive.communicator != communicator) return;
    matching_.unpost(receive);
    if (!std::exchange(receive.announced, false)) engine_.complete(receive, &failure);
  });
  receives_.for_each([&](ReceiveOperation& receive) {
    if (receive.communicator == communicator) close(receive, failure);
  });
  for (Peer* const peer : connected_) {
    peer->queued.for_each([&](SendOperation& send) {
      if (send.communicator != communicator) return;
      peer->queued.remove(send);
      engine_.complete(send, &failure);
    });
  }
  sends_.for_each([&](SendOperation& send) {
    if (send.communicator == communicator) close(send, failure);
  });
}

// ---- buffers that a device may still touch ----
//
// The ranks of a failed communicator mostly live, and other communicators need the links between them. So the owner of memory
// that a peer's device may write (or read) asks for it back: the peer posts nothing behind its answer, and what it had posted
// is done when the answer comes, because writes and records of a connection arrive in order. Who posted itself waits
// for the completion. Only where that takes too long the connection is severed, which ends all of it.

void Messaging::close(ReceiveOperation& receive, const Error& failure) noexcept {
  Peer& peer = *peers_[static_cast<std::size_t>(receive.message_source)];
  const bool open = receive.state == ReceiveOperation::State::open;
  const bool reading = receive.state == ReceiveOperation::State::reading;
  if (!open && !reading) {
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
  if (!read_by_peer && (!writing || peer.out.completed(send.told))) {
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
  if (closing_++ == 0) closing_until_ = base::after_ms(system_, withdrawal_ms_max);
}

// False: there is no memory to keep it in until a line is free.
bool Messaging::send_withdrawal(Peer& peer, RecordKind kind, std::uint32_t sender_operation,
                                std::uint32_t receiver_operation) noexcept {
  try {
    send_control(peer, {.kind = kind, .body_bytes = sizeof(RendezvousBody)},
                 {.sender_operation = sender_operation,
                  .receiver_operation = receiver_operation,
                  .region = 0,
                  .place = 0,
                  .offset = 0});
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

// The peer takes back a target (its number is the receiver's) or a source (the sender's). Its communicator fails, and so will
// ours, which ends our operation.
void Messaging::handle_withdraw(Peer& peer, const RendezvousBody& body) {
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
  peer.reads.for_each(
      [&](ReceiveOperation& receive) { under_way |= receive.sender_number == sender_number; });
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

void Messaging::sever(std::uint64_t communicator) noexcept {
  sever_closing([=](std::uint64_t its_communicator, int) { return its_communicator == communicator; });
}

// f(peer) for every operation of the communicator that waits for somebody in particular.
template <class F>
void Messaging::for_each_wait(std::uint64_t communicator, F&& f) {
  const auto look = [&](const auto& operation, int peer) {
    if (operation.communicator == communicator && peer != any_peer) f(peer);
  };
  matching_.for_each_posted([&](ReceiveOperation& receive) { look(receive, receive.source); });
  receives_.for_each([&](ReceiveOperation& receive) { look(receive, receive.message_source); });
  sends_.for_each([&](SendOperation& send) { look(send, send.target); });
  for (Peer* const connected : connected_) {
    connected->queued.for_each([&](SendOperation& send) { look(send, send.target); });
  }
}

std::optional<int> Messaging::awaited(std::uint64_t communicator) {
  std::optional<int> first;
  for_each_wait(communicator, [&](int peer) {
    if (!first) first = peer;
  });
  return first;
}

bool Messaging::waits_for_anybody(std::uint64_t communicator) {
  bool found = false;
  matching_.for_each_posted([&](ReceiveOperation& receive) {
    found |= receive.communicator == communicator && receive.source == any_peer;
  });
  return found;
}

bool Messaging::waits_for(std::uint64_t communicator, int peer) {
  bool found = false;
  for_each_wait(communicator, [&](int awaited) { found |= awaited == peer; });
  return found;
}

void Messaging::discard_messages(std::uint64_t communicator) noexcept {
  matching_.for_each_unexpected([&](Unexpected& message) {
    if (message.envelope.communicator == communicator) discard(message);
  });
  for (Peer* const peer : connected_) {
    std::erase_if(peer->announcements, [=](const Announcement& announcement) {
      return announcement.communicator == communicator;
    });
  }
}

// A receiver loads an open source by itself, whenever it comes to it. After this it finds that the offer is void, before or
// after its copy, and the source may go back to its owner.
void Messaging::revoke_offers(std::uint64_t communicator) noexcept {
  if (config_.revocations == nullptr) return;
  bool offered = false;
  sends_.for_each([&](SendOperation& send) {
    offered |= send.communicator == communicator && send.state == SendOperation::State::offered;
  });
  if (offered) config_.revocations->fetch_add(1, std::memory_order_seq_cst);
}

void Messaging::forget(std::uint64_t communicator) noexcept {
  discard_messages(communicator);
  std::erase_if(failed_, [=](const auto& failed) { return failed.first == communicator; });
}

}  // namespace qpmesh::messaging
