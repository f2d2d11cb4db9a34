// SPDX-License-Identifier: MIT
// The bootstrap's connections, kept open: who is alive, who aborted, who
// disagreed. Slow and rare; never on the hot path.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "qpmesh/bootstrap.hpp"

namespace qpmesh::base {

// Something the control channel learnt about a peer.
struct ControlEvent {
  enum class Kind : std::uint8_t {
    frame,  // the peer sent bytes
    // The peer closed normally, and everything it had sent before was delivered: not a death.
    goodbye,
    death,  // the peer's process ended without a goodbye, or its connection broke
    // A descriptor of this very process is gone: nothing is known of anybody any more. Told once.
    descriptor_lost,
  };
  Kind kind = Kind::frame;
  int peer = -1;                // of descriptor_lost: nobody
  Blob bytes;                   // frame
  std::string detail;           // death: what was observed ("process 123 ended: pidfd")
  bool host_is_silent = false;  // death: nobody saw the process end, it may still run
};

// Frames of one peer arrive whole and in order, at most frame_bytes_max each;
// goodbye or death is a peer's last event.
class ControlChannel {
 public:
  static constexpr std::size_t frame_bytes_max = 16 * 1024;

  virtual ~ControlChannel() = default;

  // Queues a frame; sends to dead peers are dropped. Never blocks.
  virtual void send(int peer, BlobView frame) = 0;
  // What happened since the last poll. Never blocks.
  virtual std::vector<ControlEvent> poll() = 0;
  // A goodbye to every living peer, after everything queued for it. Flushes until the deadline at
  // most.
  virtual void say_goodbye(Deadline deadline) noexcept = 0;
  // Readable when poll has something to do, for epoll; -1: none.
  virtual int wake_descriptor() const noexcept = 0;
};

}  // namespace qpmesh::base
