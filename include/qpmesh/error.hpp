// SPDX-License-Identifier: MIT
// What the world or the caller does wrong, as one exception type. A broken invariant of the library
// asserts instead; docs/errors.md tells the two apart.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include "qpmesh/detail/standard.hpp"
#include "qpmesh/export.h"

namespace qpmesh {

// What kind of thing went wrong.
enum class ErrorCode : std::uint8_t {
  bad_argument,    // arguments that cannot mean anything; nothing was sent, nothing consumed
  bad_config,      // an option, an environment variable or an address that cannot be used
  no_resource,     // memory, descriptors or another limit of this process or host
  authentication,  // the other side did not prove that it belongs to this job
  mismatch,        // ranks disagree: size, version, options, or the arguments of one collective
  timeout,         // a deadline passed; the peers concerned are alive as far as the kernel knows
  peer_dead,       // a rank's process ended, or its host is gone
  link_failed,     // the connection to a rank failed while the rank lives
  truncated,       // a receive is smaller than its message; the message stays first in line
  // A rank gave up: it called abort, its wait was interrupted, or a function or an exception ended
  // its call. Or the communicator went with the operation in flight.
  aborted,
  corrupt,   // bytes from a peer that no correct peer sends
  internal,  // everything that should not happen and was still survivable
};

// The code's own name, as in the enum: "peer_dead".
QPMESH_API std::string_view to_string(ErrorCode code) noexcept;

inline constexpr int no_peer = -1;  // nobody in particular is to blame

// Every member has an initialiser, so that a designated one may leave out what is not known.
struct ErrorDetail {
  ErrorCode code = ErrorCode::internal;  // what kind
  int peer = no_peer;  // the rank that is to blame, as the communicator that was used numbers it
  std::string operation{};  // what was being done: "allreduce", "init"
  std::string cause{};      // what was observed, with the values
  int system_error = 0;     // errno of the failing call, or 0
  std::string hint{};       // what to do next; may be empty
};

// Copying never throws. what() is one line with every field of the detail.
class QPMESH_API Error : public std::runtime_error {
 public:
  // For users too: a bootstrap of theirs says by it what went wrong.
  explicit Error(ErrorDetail detail);

  // The fields of the detail.
  ErrorCode code() const noexcept { return detail_->code; }
  int peer() const noexcept { return detail_->peer; }
  const std::string& operation() const noexcept { return detail_->operation; }
  const std::string& cause() const noexcept { return detail_->cause; }
  int system_error() const noexcept { return detail_->system_error; }
  const std::string& hint() const noexcept { return detail_->hint; }
  const ErrorDetail& detail() const noexcept { return *detail_; }

 private:
  std::shared_ptr<const ErrorDetail> detail_;
};

}  // namespace qpmesh
