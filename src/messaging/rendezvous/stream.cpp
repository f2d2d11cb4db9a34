// SPDX-License-Identifier: MIT
// A large message in segments through the payload ring: works everywhere.
#include <algorithm>
#include <cstring>

#include "messaging/rendezvous/rendezvous.hpp"

namespace qpmesh::messaging {

namespace {

Ring::Sent post_segment(Core& core, Peer& peer, const SendOperation& send, std::size_t bytes) {
  const SegmentBody body{.place = 0, .receiver_operation = send.receiver_number};
  RecordFields fields{.kind = RecordKind::segment,
                      .body_bytes = sizeof body,
                      .communicator = send.communicator,
                      .key = send.key,
                      .total_bytes = bytes};
  const std::span payload{send.data + send.moved_bytes, bytes};
  if (peer.out.stores()) return post(core, peer, fields, payload, send.receiver_number);
  Record record;
  start_record(record, fields);
  std::memcpy(record.body(), &body, sizeof body);
  return post(core, peer, record, payload, Ring::Priority::data);
}

}  // namespace

bool stream(Core& core, Peer& peer, SendOperation& send) {
  const std::size_t bytes = std::min(peer.out.segment_bytes_max(), send.bytes - send.moved_bytes);
  if (!peer.out.has_units(bytes)) {
    peer.out.poll_credits();
    if (!peer.out.has_units(bytes)) {
      peer.starved = true;
      return false;
    }
  }
  if (post_segment(core, peer, send, bytes) != Ring::Sent::posted) return false;
  peer.out.note_segment();
  ++core.counters.segments_sent;
  send.moved_bytes += bytes;
  if (send.moved_bytes == send.bytes) {
    finish(core, send);
  }
  return true;
}

void handle_segment(Core& core, Peer& peer, const TakenMessage& message) {
  const SegmentBody body = message.record.segment();
  ReceiveOperation* const receive = core.receives.find(body.receiver_operation);
  // Still waits for its offer: that offer was dropped, because its signature is not ours.
  if (receive == nullptr || is_preposted(receive->state)) {
    // Its sender queues what comes behind it until this room returns: nothing may hold it.
    move_out_of_ring(core, peer);
    return count_stale(core);
  }
  const std::size_t bytes = message.record.header().total_bytes;
  const bool expected = receive->message_source == peer.rank &&
                        receive->state == ReceiveState::streaming &&
                        bytes <= receive->message_bytes - receive->moved_bytes;
  if (!expected)
    return link_failed(core, peer, ErrorCode::corrupt,
                       "a segment of a message that was not asked for");
  deliver_part(*receive, receive->moved_bytes, {message.payload, bytes});
  receive->moved_bytes += bytes;
  if (receive->moved_bytes == receive->message_bytes) finish(core, *receive);
}

}  // namespace qpmesh::messaging
