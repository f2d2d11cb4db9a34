// What ranks tell each other over the control channel. Read like a stranger's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "context/call_history.hpp"
#include "qpmesh/bootstrap.hpp"
#include "qpmesh/error.hpp"

namespace qpmesh::context {

struct ControlFrame {
  enum class Kind : std::uint8_t {
    mismatch = 1,  // the sender's call of a collective, because ours looked different
    failure,       // a communicator has failed at the sender
    abort,         // the sender's context was aborted
    calls,  // the sender's last collectives, because it waits for long or has seen that they differ: who finds the
            // first difference says so
  };
  Kind kind = Kind::failure;
  std::uint64_t communicator = 0;
  std::uint32_t operation = 0;           // mismatch: the number of the collective
  CallHistory::Signatures signatures{};  // calls
  bool reply_wanted = false;             // mismatch; calls: they differ, says the sender
  std::string call{};                    // mismatch: "allreduce(1024 float32, sum)"
  ErrorDetail detail{};                  // failure, abort
};

Blob encode(const ControlFrame& frame);
std::optional<ControlFrame> decode_control_frame(BlobView bytes);  // nothing: not a frame of this version

}  // namespace qpmesh::context
