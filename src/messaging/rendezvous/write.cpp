// The sender's device writes into the target, which the receiver has opened to it.
#include <algorithm>
#include <optional>

#include "messaging/failure.hpp"
#include "messaging/rendezvous/rendezvous.hpp"

namespace qpmesh::messaging {

// Posts what the connection takes of a zero-copy message, then finished behind it, then waits for
// the completion: the device reads the source until then. True: nothing is left to do.
bool write_through(Core& core, Peer& peer, SendOperation& send) {
  const auto source_region = send.opened ? std::optional{send.opened->region} : std::nullopt;
  while (send.state == SendState::writing) {
    if (!peer.out.has_room_behind(send.completion)) return false;
    const std::size_t bytes_max =
        send.staged ? peer.out.staged_bytes_max() : peer.capabilities.write_bytes_max;
    const std::size_t bytes = std::min(bytes_max, send.bytes - send.moved_bytes);
    const transport::RemoteAddress target{send.destination.region,
                                          send.destination.offset + send.moved_bytes};
    const Ring::Sent sent =
        peer.out.write({send.data + send.moved_bytes, bytes}, source_region, target,
                       send.staged ? Ring::From::staging : Ring::From::source, send.completion);
    if (sent == Ring::Sent::failed) {
      link_failed(core, peer, ErrorCode::link_failed, "the connection failed");
      return false;
    }
    if (sent != Ring::Sent::posted) return false;
    send.moved_bytes += bytes;
    if (send.moved_bytes < send.bytes) continue;
    enter(send, SendState::written);
    send_control(core, peer, finished_record(send.communicator, flag_to_receiver),
                 {.sender_operation = send.number, .receiver_operation = send.receiver_number});
  }
  if (!peer.out.completed(send.completion)) return false;
  if (send.state == SendState::draining) {
    end_closing(core, send);
    return true;
  }
  finish_send(core, send);
  core.engine.complete(send);
  return true;
}

}  // namespace qpmesh::messaging
