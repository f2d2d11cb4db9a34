// How operations end when they cannot succeed: links that fail, communicators that fail, and who is still awaited.
#include <algorithm>
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
  sever_overdue();
}

void Messaging::give_up(int rank) noexcept {
  Peer& peer = *peers_[static_cast<std::size_t>(rank)];
  peer.failed = peer.reported = true;
  sever_with(rank);
}

void Messaging::report_failed_links() {
  links_failed_ = false;
  for (Peer* const peer : connected_) {
    if (!peer->failed || peer->reported) continue;
    peer->reported = true;
    sever_with(peer->rank);
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
    if (!receive.announced)
      engine_.complete(receive, &failure);  // else it is one of those that have a number
  });
  receives_.for_each([&](ReceiveOperation& receive) {
    if (receive.communicator == communicator) close(receive, failure);
  });
  for (Peer* const peer : connected_) {
    peer->queued.for_each([&](SendOperation& send) {
      if (send.communicator != communicator) return;
      peer->queued.remove(send);
      close_source(*peer, send);
      engine_.complete(send, &failure);
    });
  }
  sends_.for_each([&](SendOperation& send) {
    if (send.communicator == communicator) close(send, failure);
  });
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
