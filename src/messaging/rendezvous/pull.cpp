// SPDX-License-Identifier: MIT
// Large messages that the receiver copies by itself out of where the sender has them: memory that
// it can load, or the sender's private memory.
//
// Both ends wait for the same message, and each may have a core that could copy. The receiver opens
// a guard for the last part of where the bytes go, and asks. The sender, if it comes to that while
// it polls, fills that part by one call of the system. What it has not begun when the receiver has
// the first part the receiver copies too. What it has begun it ends by itself: until then the
// receive is `filling`, and not done whatever comes: nobody writes a buffer that its owner has
// back.
#include <cstring>
#include <new>
#include <utility>

#include "base/cpu.hpp"
#include "base/errors.hpp"
#include "base/fill_guard.hpp"
#include "messaging/rendezvous/rendezvous.hpp"

namespace qpmesh::messaging {

using transport::FillGuard;

namespace {

// Both were to end together: looks at the guard for what the sender may lack then.
constexpr int looks_before_filling = 400;

// Also where the count cannot be loaded.
bool is_revoked(Peer& peer, const OfferBody& offered) {
  const auto* const revocations = reinterpret_cast<const base::Revocations*>(
      peer.connection.load(peer.remote_revocations, sizeof(base::Revocations)));
  return revocations == nullptr || revocations->has_changed_since(offered.revocations);
}

// A part of the message, at once. False: it cannot be reached.
bool take_source(Peer& peer, const Pull& pull, std::size_t begin, std::size_t bytes) {
  const ReceiveOperation& receive = *pull.receive;
  const std::uint64_t offset = pull.offered.offset + begin;
  if (pull.is_private)
    return peer.neighbour->copy_private(receive.data + begin, offset, bytes) == 0;
  const std::byte* const source = peer.connection.load({pull.offered.region, offset}, bytes);
  if (source == nullptr) return false;
  deliver_part(receive, begin, {source, bytes});
  return true;
}

// The message is here. The sender may take its source back (its communicator failed) at any moment,
// and raises its count before: the copy is the message when the count is still the offer's.
bool end_pull(Core& core, Peer& peer, const Pull& pull) {
  ReceiveOperation& receive = *pull.receive;
  const std::uint64_t communicator = receive.communicator;
  if (is_revoked(peer, pull.offered)) {
    if (receive.combine == nullptr) return false;
    const Error failure{{.code = ErrorCode::aborted,
                         .peer = peer.rank,
                         .cause = "the peer took back what it was sending"}};
    core.matching.post(receive);  // where the failing communicator finds it
    core.listener.communicator_failed(communicator, failure.detail());
    return true;
  }
  ++core.counters.pulls;
  if (peer.long_timed > 0) note_long_end(core, peer, receive);
  core.engine.complete(receive);
  send_control(core, peer, finished_record(communicator),
               {.sender_operation = pull.offered.sender_operation});
  return true;
}

bool wants_help(Core& core, const Peer& peer, std::size_t bytes) noexcept {
  return core.config.cooperative_copies && peer.remote_guard != nullptr &&
         peer.neighbour->fills_private() && peer.filling.receive == nullptr && !sends_long(peer) &&
         peer.control.empty() && bytes >= base::filled_bytes_min && bytes <= base::filled_bytes_max;
}

void ask_for_help(Core& core, Peer& peer, const Pull& pull) {
  const std::span<std::byte> rest{pull.receive->data + pull.first_bytes,
                                  pull.receive->message_bytes - pull.first_bytes};
  const HelpBody body{.sender_operation = pull.offered.sender_operation,
                      .number = ++peer.helps,
                      .address = reinterpret_cast<std::uintptr_t>(rest.data()),
                      .guard_address = reinterpret_cast<std::uintptr_t>(&peer.guard),
                      .begin = pull.first_bytes,
                      .bytes = rest.size()};
  peer.guard.open_for(body.number);
  Record record;
  start_record(record, {.kind = RecordKind::help, .body_bytes = sizeof body});
  std::memcpy(record.body(), &body, sizeof body);
  post(core, peer, record, {}, Ring::Priority::control);  // or not: then nobody begins
}

// The peer writes our memory no more; filled: it has copied what it was asked for.
bool end_together(Core& core, Peer& peer, const Pull& pull, bool filled) {
  if (filled) ++core.counters.helped_pulls;
  const std::size_t rest = pull.receive->message_bytes - pull.first_bytes;
  return pull.copied && (filled || take_source(peer, pull, pull.first_bytes, rest)) &&
         end_pull(core, peer, pull);
}

bool pull_together(Core& core, Peer& peer, Pull pull) {
  const std::size_t bytes = pull.receive->message_bytes;
  pull.first_bytes = peer.help_share.first_bytes(bytes);
  ask_for_help(core, peer, pull);
  pull.copied = take_source(peer, pull, 0, pull.first_bytes);
  FillGuard::Phase phase = peer.guard.take_back(peer.helps);
  if (phase == FillGuard::done) peer.help_share.it_was_faster();
  if (phase == FillGuard::begun) peer.help_share.it_was_awaited();
  for (int look = 0; phase == FillGuard::begun && look < looks_before_filling; ++look) {
    base::cpu_pause();
    phase = peer.guard.phase_of(peer.helps);
  }
  if (phase != FillGuard::begun) return end_together(core, peer, pull, phase == FillGuard::done);
  enter(*pull.receive, ReceiveState::filling);
  peer.filling = pull;
  ++core.fillings;
  return true;
}

void end_filling(Core& core, Peer& peer) {
  const Pull pull = std::exchange(peer.filling, {});
  ReceiveOperation& receive = *pull.receive;
  --core.fillings;
  if (receive.state == ReceiveState::settling) {
    forget_time(peer, receive);
    return core.engine.complete(receive, receive.failure);
  }
  try {
    if (end_together(core, peer, pull, peer.guard.phase_of(peer.helps) == FillGuard::done)) return;
    forget_time(peer, receive);  // it comes another way
    answer(core, peer, receive, pull.offered.sender_operation);
  } catch (const std::bad_alloc&) {  // as in poll_peer
    link_failed(core, peer, ErrorCode::no_resource, base::no_memory);
  }
}

}  // namespace

bool pull(Core& core, Peer& peer, ReceiveOperation& receive, const OfferBody& offered,
          bool is_private, Help help) {
  if (!peer.capabilities.loads_peer_memory || is_revoked(peer, offered)) return false;
  const Pull pull{.receive = &receive, .offered = offered, .is_private = is_private};
  if (is_private && !peer.copies_private()) return false;
  if (receive.combine == nullptr && help == Help::wanted &&
      wants_help(core, peer, receive.message_bytes))
    return pull_together(core, peer, pull);
  return take_source(peer, pull, 0, receive.message_bytes) && end_pull(core, peer, pull);
}

void look_at_fillings(Core& core, bool for_the_dead) {
  for (Peer* const peer : core.connected) {
    if (peer->filling.receive == nullptr) continue;
    const bool writes = peer->guard.phase_of(peer->helps) == FillGuard::begun &&
                        !(for_the_dead && peer->neighbour->has_ended());
    if (!writes) end_filling(core, *peer);
  }
}

void handle_help(Core& core, Peer& peer, const HelpBody& body) {
  const SendOperation* const send = core.find_send(peer, body.sender_operation);
  if (send == nullptr || !is_offered(send->state) || peer.remote_guard == nullptr)
    return count_stale(core);
  if (body.begin > send->bytes || body.bytes > send->bytes - body.begin)
    return link_failed(core, peer, ErrorCode::corrupt,
                       "it asks for more of a message than there is");
  peer.neighbour->fill(
      *peer.remote_guard,
      {.address = body.address, .guard_address = body.guard_address, .number = body.number},
      {send->data + body.begin, body.bytes});
}

}  // namespace qpmesh::messaging
