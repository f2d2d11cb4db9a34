// The receiver's device reads the source, which the sender has opened to it.
#include <algorithm>

#include "messaging/failure.hpp"
#include "messaging/rendezvous/rendezvous.hpp"

namespace qpmesh::messaging {

// False: answer the offer in another way.
bool begin_read(Core& core, Peer& peer, ReceiveOperation& receive, const OfferBody& offered) {
  if (receive.message_bytes == 0) return false;
  if (!open_target(core, peer, receive)) return false;
  receive.number = core.receives.add(receive);  // where the failing communicator finds it
  if (receive.number == 0) {
    close_target(peer, receive);
    return false;
  }
  enter(receive, ReceiveState::reading);
  receive.sender_number = offered.sender_operation;
  receive.origin = {offered.region, offered.offset};
  receive.completion = 0;
  ++core.counters.reads;
  peer.reads.push_back(receive);
  read_through(core, peer, receive);
  return true;
}

// Posts what the connection takes, then waits for the completion and tells the sender. True:
// nothing is left to do.
bool read_through(Core& core, Peer& peer, ReceiveOperation& receive) {
  while (receive.state == ReceiveState::reading && receive.moved_bytes < receive.message_bytes) {
    if (!peer.out.has_room_behind(receive.completion)) return false;
    const std::size_t bytes =
        std::min(peer.capabilities.write_bytes_max, receive.message_bytes - receive.moved_bytes);
    const Ring::Sent sent = peer.out.read(
        {receive.data + receive.moved_bytes, bytes}, receive.region,
        {receive.origin.region, receive.origin.offset + receive.moved_bytes}, receive.completion);
    if (sent == Ring::Sent::failed) {
      link_failed(core, peer, ErrorCode::link_failed, "the connection failed");
      return false;
    }
    if (sent != Ring::Sent::posted) return false;
    receive.moved_bytes += bytes;
  }
  if (!peer.out.completed(receive.completion)) return false;
  const RendezvousBody body{.sender_operation = receive.sender_number};
  const RecordFields fields = finished_record(receive.communicator);
  if (receive.state == ReceiveState::draining) {
    end_closing(core, receive);
  } else if (receive.moved_bytes < receive.message_bytes) {
    peer.reads.remove(receive);
    enter(receive, ReceiveState::released);
  } else {
    finish_receive(core, receive);
    core.engine.complete(receive);
  }
  send_control(core, peer, fields, body);
  return true;
}

}  // namespace qpmesh::messaging
