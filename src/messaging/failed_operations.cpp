// SPDX-License-Identifier: MIT
// How operations end when a link or a communicator has failed, and who is still awaited.
#include <new>
#include <utility>

#include "base/errors.hpp"
#include "messaging/core.hpp"
#include "messaging/mutant.hpp"
#include "messaging/rendezvous/rendezvous.hpp"

namespace qpmesh::messaging {

namespace {

// f(peer) for every operation of the communicator; any_peer: it waits for nobody in particular.
template <class F>
void for_each_wait(Core& core, std::uint64_t communicator, F&& f) {
  const auto look = [&](const auto& operation, int peer) {
    if (operation.communicator == communicator) f(peer);
  };
  core.matching.for_each_posted([&](ReceiveOperation& receive) { look(receive, receive.source); });
  core.receives.for_each([&](ReceiveOperation& receive) { look(receive, receive.message_source); });
  for (const Peer* const connected : core.connected) {
    if (connected->filling.receive != nullptr) look(*connected->filling.receive, connected->rank);
  }
  core.sends.for_each([&](SendOperation& send) { look(send, send.target); });
  for (Peer* const connected : core.connected) {
    connected->queued.for_each([&](SendOperation& send) { look(send, send.target); });
  }
}

// The receive of this communicator whose buffer the peer still fills.
ReceiveOperation* filling_of(const Peer& peer, std::uint64_t communicator) noexcept {
  ReceiveOperation* const receive = peer.filling.receive;
  return receive != nullptr && receive->communicator == communicator ? receive : nullptr;
}

void take_what_is_here(Core& core, Peer& peer) {
  for (std::uint32_t sweep = 0; sweep < record_ring_lines && poll_peer(core, peer); ++sweep) {}
}

// Another rail has the ordered writes: the peer posts its messages again behind the last one that
// was taken, and what we had told of its credits may be lost.
void start_over(Core& core, Peer& peer) {
  take_what_is_here(core, peer);
  if (peer.failed) return;
  peer.connection.tell_taken(peer.in.start_over());
  if (mutant == Mutant::lost_counts) return;
  peer.out.forget_told();
  peer.wants_credit = true;
}

void discard_messages(Core& core, std::uint64_t communicator) noexcept {
  core.matching.for_each_unexpected([&](Unexpected& message) {
    if (message.envelope.communicator == communicator) discard(core, message);
  });
  for (Peer* const peer : core.connected) {
    std::erase_if(peer->preposted, [=](const Record& answer) {
      return answer.header().communicator == communicator;
    });
  }
}

}  // namespace

// The listener hears of it at the end of poll: it ends operations, some of which are just being
// started or moved. Nothing here may throw: what is being moved may be in two lists, or in none.
void link_failed(Core& core, Peer& peer, ErrorCode code, std::string_view cause) noexcept {
  if (peer.failed) return;
  peer.failed = core.links_failed = true;
  peer.failure = {.code = code, .peer = peer.rank};
  try {
    // What the connection saw is nearer to the cause than what became of it.
    const ErrorDetail* const fault = peer.connection.fault();
    if (fault != nullptr && code == ErrorCode::link_failed) peer.failure = *fault;
    else peer.failure.cause = cause;
  } catch (const std::bad_alloc&) {
    peer.failure.cause = base::no_memory;
  }
}

void Messaging::look_at_links() {
  Core& core = *core_;
  for (transport::Transport* const transport : core.transports) transport->poll_async_events();
  for (Peer* const peer : core.connected) {
    if (peer->failed) continue;
    if (peer->connection.asks_taken()) start_over(core, *peer);
    if (peer->failed || peer->connection.fault() == nullptr) continue;
    take_what_is_here(core, *peer);
    messaging::link_failed(core, *peer, ErrorCode::link_failed, "the connection failed");
  }
  if (core.links_failed) report_failed_links(core);
  if (core.fillings > 0) look_at_fillings(core, true);
  if (core.closing > 0 && core.system.now() >= core.closing_until)
    messaging::end_closing(core, {}, {});
}

void Messaging::give_up(int rank) noexcept {
  Peer& peer = core_->peer(rank);
  peer.failed = peer.reported = true;
  messaging::end_closing(*core_, rank, {});
}

void Messaging::end_closing(std::uint64_t communicator) noexcept {
  messaging::end_closing(*core_, {}, communicator);
}

void report_failed_links(Core& core) {
  core.links_failed = false;
  for (Peer* const peer : core.connected) {
    if (!peer->failed || peer->reported) continue;
    peer->reported = true;
    end_closing(core, peer->rank, {});
    core.listener.link_failed(std::move(peer->failure));
  }
}

const Error* failure_of(Core& core, std::uint64_t communicator) noexcept {
  for (const auto& [id, failure] : core.failed) {
    if (id == communicator) return failure;
  }
  return nullptr;
}

void Messaging::fail(std::uint64_t communicator, const Error& failure) {
  Core& core = *core_;
  core.failed.emplace_back(communicator, &failure);
  discard_messages(core, communicator);
  revoke_offers(core, communicator);
  core.matching.for_each_posted([&](ReceiveOperation& receive) {
    if (receive.communicator != communicator) return;
    core.matching.unpost(receive);
    if (!is_preposted(receive.state))
      core.engine.complete(receive, &failure);  // else it is one of those that have a number
  });
  core.receives.for_each([&](ReceiveOperation& receive) {
    if (receive.communicator == communicator) close(core, receive, failure);
  });
  for (Peer* const peer : core.connected) {
    if (ReceiveOperation* const receive = filling_of(*peer, communicator)) {
      receive->failure = &failure;  // done when the peer writes no more
      enter(*receive, ReceiveState::settling);
    }
    peer->queued.for_each([&](SendOperation& send) {
      if (send.communicator != communicator) return;
      peer->queued.remove(send);
      close_memory(*peer, send.opened);
      core.engine.complete(send, &failure);
    });
  }
  core.sends.for_each([&](SendOperation& send) {
    if (send.communicator == communicator) close(core, send, failure);
  });
}

std::optional<int> Messaging::awaited(std::uint64_t communicator) {
  if (const ReceiveOperation* const receive = core_->matching.first_posted(communicator))
    return receive->source;
  std::optional<int> first;
  for_each_wait(*core_, communicator, [&](int peer) {
    if (!first && peer != any_peer) first = peer;
  });
  return first;
}

bool Messaging::has_operations(std::uint64_t communicator) {
  bool found = false;
  for_each_wait(*core_, communicator, [&](int /*peer*/) { found = true; });
  return found;
}
bool Messaging::has_sends(std::uint64_t communicator) noexcept {
  bool found = false;
  const auto look = [&](const SendOperation& send) { found |= send.communicator == communicator; };
  core_->sends.for_each(look);
  for (Peer* const peer : core_->connected) peer->queued.for_each(look);
  return found;
}

bool Messaging::waits_for(std::uint64_t communicator, int peer) {
  bool found = false;
  for_each_wait(*core_, communicator, [&](int awaited) { found |= awaited == peer; });
  return found;
}

std::optional<int> Messaging::fills(std::uint64_t communicator) const noexcept {
  if (core_->fillings == 0) return std::nullopt;
  for (const Peer* const peer : core_->connected) {
    if (filling_of(*peer, communicator) != nullptr) return peer->rank;
  }
  return std::nullopt;
}

void Messaging::forget(std::uint64_t communicator, bool may_come) noexcept {
  discard_messages(*core_, communicator);
  if (may_come) core_->note_gone(communicator);
  std::erase_if(core_->failed, [=](const auto& failed) { return failed.first == communicator; });
}

}  // namespace qpmesh::messaging
