// A large message in segments through the payload ring: works everywhere.
#include <algorithm>
#include <cstring>

#include "messaging/failure.hpp"
#include "messaging/rendezvous/rendezvous.hpp"

namespace qpmesh::messaging {

// One segment. False: nothing can be posted now.
bool stream(Core& core, Peer& peer, SendOperation& send) {
  const std::size_t bytes = std::min(peer.out.segment_bytes_max(), send.bytes - send.moved_bytes);
  if (!peer.out.has_units(bytes)) {
    peer.out.poll_credits();
    if (!peer.out.has_units(bytes)) {
      peer.starved = true;
      return false;
    }
  }
  Record record;
  const SegmentBody body{.place = 0, .receiver_operation = send.receiver_number};
  start_record(record, {.kind = RecordKind::segment,
                        .body_bytes = sizeof body,
                        .communicator = send.communicator,
                        .key = send.key,
                        .total_bytes = bytes});
  std::memcpy(record.body(), &body, sizeof body);
  if (post(core, peer, record, {send.data + send.moved_bytes, bytes}, Ring::Priority::data) !=
      Ring::Sent::posted)
    return false;
  ++core.counters.segments_sent;
  send.moved_bytes += bytes;
  if (send.moved_bytes == send.bytes) {
    finish_send(core, send);
    core.engine.complete(send);
  }
  return true;
}

void handle_segment(Core& core, Peer& peer, const TakenMessage& message) {
  const SegmentBody body = message.record.segment();
  ReceiveOperation* const receive = core.receives.find(body.receiver_operation);
  // Still waits for its offer: that offer was dropped, because its signature is not ours.
  if (receive == nullptr || is_preposted(receive->state)) return count_stale(core);
  const std::size_t bytes = message.record.header().total_bytes;
  const bool expected = receive->message_source == peer.rank &&
                        receive->state == ReceiveState::streaming &&
                        bytes <= receive->message_bytes - receive->moved_bytes;
  if (!expected)
    return link_failed(core, peer, ErrorCode::corrupt,
                       "a segment of a message that was not asked for");
  std::byte* const target = receive->data + receive->moved_bytes;
  if (receive->combine != nullptr) {
    const std::byte* const operand =
        receive->operand != nullptr ? receive->operand + receive->moved_bytes : nullptr;
    receive->combine(target, operand, message.payload, bytes, receive->context);
  } else {
    std::memcpy(target, message.payload, bytes);
  }
  receive->moved_bytes += bytes;
  if (receive->moved_bytes < receive->message_bytes) return;
  finish_receive(core, *receive);
  core.engine.complete(*receive);
}

}  // namespace qpmesh::messaging
