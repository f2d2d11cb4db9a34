// SPDX-License-Identifier: MIT
// Receives of collectives that answer before they are asked.
//
// A step of a collective knows its peer and its length, so the answer to a large message can be on
// its way before the offer: a clear_to_send that names no send. The peer's next unanswered large
// send with the key takes it. Nothing else changes: the offer is still made, ahead of every byte,
// and is where the receive is matched, in its order among small messages; only nobody waits for it.
//
// Why the two ends pair them alike: within a key sends and receives are first in, first out; both
// ends count the same ones as large (EagerBytes follows from agreed options and the layout of
// the rings); and a receiver answers each of them in order, combined ones too, whether before the
// offer or after. A step of another length, or of another call, is not written anywhere: its
// offer tells the receiver, whose communicator fails.
#include <fmt/core.h>

#include <algorithm>

#include "messaging/rendezvous/rendezvous.hpp"

namespace qpmesh::messaging {

namespace {

constexpr std::size_t preposted_max = 1U << 16;  // a peer has not more numbers for its receives

}  // namespace

void prepost(Core& core, ReceiveOperation& receive) {
  Peer& peer = core.peer(receive.source);
  // Where the peer's memory is loaded instead the offer says what the receiver must know.
  if (!peer.capabilities.registers_user_memory ||
      receive.capacity_bytes <= peer.eager.max(receive.key))
    return;
  if (peer.failed || core.config.rendezvous == RendezvousChoice::read) return;
  receive.message_source = receive.source;
  receive.message_key = receive.key;
  receive.message_bytes = receive.capacity_bytes;
  answer(core, peer, receive, 0);
}

void confirm(Core& core, Peer& peer, ReceiveOperation& receive, const RecordHeader& header) {
  const bool open = receive.state == ReceiveState::preposted_open;
  enter(receive, open ? ReceiveState::open : ReceiveState::streaming);
  if (header.kind == RecordKind::rendezvous && header.total_bytes == receive.capacity_bytes) return;
  core.listener.communicator_failed(
      receive.communicator,
      wrong_step_length(peer.rank, header.total_bytes, receive.capacity_bytes));
}

void handle_preposted(Core& core, Peer& peer, const Record& answer) {
  const RecordHeader& header = answer.header();
  if (failure_of(core, header.communicator) != nullptr) return;
  const auto is_answered = [&](const SendOperation& send) {
    return send.communicator == header.communicator && send.key == header.key &&
           send.bytes > peer.eager.max(send.key);
  };
  SendOperation* send = peer.offered.first();
  while (send != nullptr && !is_answered(*send)) send = send->next;
  if (send != nullptr) {
    if (send->bytes == header.total_bytes && send->signature == header.signature)
      proceed(core, peer, *send, answer);
    return;
  }
  if (!is_collective(header.key) || peer.preposted.size() == preposted_max)
    return link_failed(core, peer, ErrorCode::corrupt,
                       "an answer to a message that no rank would send");
  peer.preposted.push_back(answer);
}

void take_preposted(Core& core, Peer& peer, SendOperation& send) {
  if (send.bytes <= peer.eager.max(send.key)) return;
  const auto found = std::ranges::find_if(peer.preposted, [&](const Record& answer) {
    return answer.header().communicator == send.communicator && answer.header().key == send.key;
  });
  if (found == peer.preposted.end()) return;
  const Record answer = *found;
  peer.preposted.erase(found);
  const RecordHeader& header = answer.header();
  if (header.total_bytes != send.bytes || header.signature != send.signature) return;
  ++core.counters.preposted_sends;
  proceed(core, peer, send, answer);
}

}  // namespace qpmesh::messaging
