// SPDX-License-Identifier: MIT
// What ranks tell each other over the control channel. Read like a stranger's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "context/call_history.hpp"
#include "context/peer_health.hpp"
#include "qpmesh/bootstrap.hpp"
#include "qpmesh/error.hpp"

namespace qpmesh::context {

struct ControlFrame {
  enum class Kind : std::uint8_t {
    mismatch = 1,  // the sender's call of a collective, because ours looked different
    failure,       // a communicator has failed at the sender
    abort,         // the sender's context was aborted
    // The sender's last collectives, because it waits for long or has seen that they differ: who
    // finds the first difference says so.
    calls,
    leaving,            // why it goes: what follows, its goodbye or its end, is no death
    whom_do_you_await,  // the sender's wait for us is about to end in a timeout
    awaits,             // the answer
    connect,            // towards a connection with the sender (transport/on_demand.hpp)
  };
  Kind kind = Kind::failure;
  std::uint64_t communicator = 0;
  std::uint32_t operation = 0;  // mismatch: the number of the collective
  bool reply_wanted = false;    // mismatch; calls: they differ, says the sender
  std::string call{};           // mismatch: "allreduce(1024 float32, sum)"
  ErrorDetail detail{};         // failure, abort; leaving: the last error, if it has a cause
  bool says_who_saw = false;    // failure: the detail came from another rank, and says so
  Farewell::Reason reason = Farewell::Reason::closed;  // leaving
  std::int32_t awaited = no_peer;                      // awaits: a rank of the context
  CallHistory::Signatures signatures{};                // calls
  Blob words{};                                        // connect: what the transport says
};

Blob encode(const ControlFrame& frame);
// Nothing: not a frame of this version.
std::optional<ControlFrame> decode_control_frame(BlobView bytes);

}  // namespace qpmesh::context
