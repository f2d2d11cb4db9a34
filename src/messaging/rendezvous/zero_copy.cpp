// SPDX-License-Identifier: MIT
// A device moves the message: the receiver's reads the source that the sender has opened to it, or
// the sender's writes into the target that the receiver has opened.
#include <algorithm>
#include <optional>

#include "messaging/rendezvous/rendezvous.hpp"

namespace qpmesh::messaging {

namespace {

// Of messages that are written to one peer at a time, without the oldest.
constexpr std::size_t writes_ahead_bytes_max = std::size_t{256} << 10;

// Posts what the connection takes of the message by post_piece(from, bytes). True: that is all.
template <class Operation, class PostPiece>
bool post_pieces(Core& core, Peer& peer, Operation& operation, std::size_t message_bytes,
                 std::size_t piece_bytes_max, PostPiece&& post_piece) {
  while (operation.moved_bytes < message_bytes) {
    if (!peer.out.has_room_behind(operation.completion) || awaits_revoke(peer)) return false;
    const std::size_t bytes = std::min(piece_bytes_max, message_bytes - operation.moved_bytes);
    const Ring::Sent sent = post_piece(operation.moved_bytes, bytes);
    if (sent == Ring::Sent::failed)
      link_failed(core, peer, ErrorCode::link_failed, "the connection failed");
    if (sent != Ring::Sent::posted) return false;
    operation.moved_bytes += bytes;
  }
  return true;
}

std::optional<std::uint32_t> region_of(const std::optional<transport::RemoteAddress>& opened) {
  return opened ? std::optional{opened->region} : std::nullopt;
}

}  // namespace

bool begin_read(Core& core, Peer& peer, ReceiveOperation& receive, const OfferBody& offered) {
  if (receive.message_bytes == 0 || !open_target(core, peer, receive)) return false;
  receive.number = core.receives.add(receive);  // where the failing communicator finds it
  if (receive.number == 0) {
    close_memory(peer, receive.opened);
    return false;
  }
  enter(receive, ReceiveState::reading);
  receive.sender_number = offered.sender_operation;
  receive.origin = offered.memory();
  receive.completion = 0;
  ++core.counters.reads;
  peer.reads.push_back(receive);
  read_through(core, peer, receive);
  return true;
}

// Behind the last completion the sender has its source back, whatever becomes of the message.
void read_through(Core& core, Peer& peer, ReceiveOperation& receive) {
  const auto read = [&](std::size_t from, std::size_t bytes) {
    return peer.out.read({receive.data + from, bytes}, region_of(receive.opened),
                         receive.origin + from, receive.completion);
  };
  if (receive.state == ReceiveState::reading &&
      !post_pieces(core, peer, receive, receive.message_bytes, peer.capabilities.write_bytes_max,
                   read))
    return;
  if (!peer.out.completed(receive.completion)) return;
  const RendezvousBody body{.sender_operation = receive.sender_number};
  const RecordFields fields = finished_record(receive.communicator);
  if (receive.state == ReceiveState::stopped && receive.moved_bytes < receive.message_bytes) {
    peer.reads.remove(receive);
    enter(receive, ReceiveState::released);
  } else {
    finish(core, receive);
  }
  send_control(core, peer, fields, body);
}

namespace {

// Finished goes behind the last write: over several rails, behind its completion. The device reads
// the source until then in any case.
void write_through(Core& core, Peer& peer, SendOperation& send) {
  const auto write = [&](std::size_t from, std::size_t bytes) {
    return peer.out.write({send.data + from, bytes}, region_of(send.opened),
                          send.destination + from,
                          send.staged ? Ring::From::staging : Ring::From::source, send.completion);
  };
  if (send.state == SendState::writing) {
    const std::size_t piece_bytes_max =
        send.staged ? peer.out.staged_bytes_max() : peer.capabilities.write_bytes_max;
    if (!post_pieces(core, peer, send, send.bytes, piece_bytes_max, write)) return;
    if (peer.capabilities.rails > 1 && !peer.out.completed(send.completion)) return;
    enter(send, SendState::written);
    send_control(core, peer, finished_record(send.communicator, flag_to_receiver),
                 {.sender_operation = send.number, .receiver_operation = send.receiver_number});
  }
  if (peer.out.completed(send.completion)) finish_written(core, peer, send);
}

}  // namespace

// Answers and credits, for which the peer waits to send to us, go behind every write that was
// posted before them. So a message begins when little is under way: otherwise two ranks that send
// each other many take turns, and each moves bytes half of the time. Two are always under way, that
// the device need not wait for us between them.
void write_through(Core& core, Peer& peer) {
  std::size_t ahead_bytes = 0;  // of those under way, without the oldest
  for (SendOperation *send = peer.writes.first(), *following; send != nullptr; send = following) {
    following = send->next;
    const bool begins = send->state == SendState::writing && send->moved_bytes == 0;
    if (begins && ahead_bytes >= writes_ahead_bytes_max) return;
    if (send != peer.writes.first()) ahead_bytes += send->bytes;
    write_through(core, peer, *send);
  }
}

}  // namespace qpmesh::messaging
