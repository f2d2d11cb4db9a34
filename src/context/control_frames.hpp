// What ranks tell each other over the control channel. Read like a stranger's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "qpmesh/bootstrap.hpp"
#include "qpmesh/error.hpp"

namespace qpmesh::context {

struct ControlFrame {
  enum class Kind : std::uint8_t {
    mismatch = 1,  // the sender's call of a collective, because ours looked different
    failure,       // a communicator has failed at the sender
    abort,         // the sender's context was aborted
    stalled,       // the sender waits for long in a collective: who called another one says so
  };
  Kind kind = Kind::failure;
  std::uint64_t communicator = 0;
  std::uint32_t operation = 0;  // mismatch, stalled: the number of the collective
  std::uint32_t signature = 0;  // stalled: what every rank must call alike
  bool reply_wanted = false;    // mismatch
  std::string call{};           // mismatch: "allreduce(1024 float32, sum)"
  ErrorDetail detail{};         // failure, abort
};

Blob encode(const ControlFrame& frame);
std::optional<ControlFrame> decode_control_frame(BlobView bytes);  // nothing: not a frame of this version

}  // namespace qpmesh::context
