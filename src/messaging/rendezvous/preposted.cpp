// Receives of collectives that answer before they are asked.
//
// A step of a collective knows its peer and its length, so the answer to a large message can be on
// its way before the offer: an announcement is a clear_to_send that names no send. The peer's next
// unanswered large send with the key takes it. Nothing else changes: the offer is still made, ahead
// of every byte, and is where the receive is matched, in its order among small messages; only
// nobody waits for it.
//
// Why the two ends pair them alike: within a key sends and receives are first in, first out; both
// ends count the same ones as large (eager_bytes_limit follows from the layout of the rings, not
// from options); and a receiver answers each of them in order, combined ones too, whether before
// the offer or after. A step of another length, or of another call, is not written anywhere: its
// offer tells the receiver, whose communicator fails.
#include <algorithm>

#include "messaging/failure.hpp"
#include "messaging/rendezvous/rendezvous.hpp"
#include "messaging/step_length.hpp"

namespace qpmesh::messaging {

namespace {

constexpr std::size_t announcements_max = 1U << 16;  // a peer has not more numbers for its receives

}  // namespace

void announce(Core& core, ReceiveOperation& receive) {
  Peer& peer = core.peer(receive.source);
  // Where the peer's memory is loaded instead the offer says what the receiver must know.
  if (!peer.capabilities.registers_user_memory || receive.capacity_bytes <= peer.eager_bytes_limit)
    return;
  if (peer.failed || core.config.rendezvous == Rendezvous::read) return;
  receive.message_source = receive.source;
  receive.message_key = receive.key;
  receive.message_bytes = receive.capacity_bytes;
  if (answer(core, peer, receive, 0)) ++core.counters.announcements;
  else fail_without_number(core, peer, receive);
}

// The message of an announced receive has come up in its order.
void confirm(Core& core, Peer& peer, ReceiveOperation& receive, const RecordHeader& header) {
  const bool open = receive.state == ReceiveState::preposted_open;
  enter(receive, open ? ReceiveState::open : ReceiveState::streaming);
  if (header.kind == RecordKind::rendezvous && header.total_bytes == receive.capacity_bytes) return;
  core.listener.communicator_failed(
      receive.communicator,
      wrong_step_length(peer.rank, header.total_bytes, receive.capacity_bytes));
}

void handle_announcement(Core& core, Peer& peer, const RecordHeader& header,
                         const RendezvousBody& body) {
  if (failure_of(core, header.communicator) != nullptr) return;
  const auto is_answered = [&](const SendOperation& send) {
    return send.communicator == header.communicator && send.key == header.key &&
           send.bytes > peer.eager_bytes_limit;
  };
  SendOperation* send = peer.offered.first();
  while (send != nullptr && !is_answered(*send)) send = send->next;
  if (send != nullptr) {
    if (send->bytes == header.total_bytes && send->signature == header.signature)
      proceed(core, peer, *send, header.flags, body);
    return;
  }
  if (!is_collective(header.key) || peer.announcements.size() == announcements_max)
    return link_failed(core, peer, ErrorCode::corrupt,
                       "an answer to a message that no rank would send");
  peer.announcements.push_back(
      {header.communicator, header.key, header.total_bytes, header.signature, header.flags, body});
}

// For a send whose offer has just been made.
void take_announcement(Core& core, Peer& peer, SendOperation& send) {
  if (send.bytes <= peer.eager_bytes_limit) return;
  const auto found = std::find_if(
      peer.announcements.begin(), peer.announcements.end(), [&](const Announcement& announcement) {
        return announcement.communicator == send.communicator && announcement.key == send.key;
      });
  if (found == peer.announcements.end()) return;
  const Announcement announcement = *found;
  peer.announcements.erase(found);
  if (announcement.bytes != send.bytes || announcement.signature != send.signature) return;
  ++core.counters.announced_sends;
  proceed(core, peer, send, announcement.flags, announcement.body);
}

}  // namespace qpmesh::messaging
