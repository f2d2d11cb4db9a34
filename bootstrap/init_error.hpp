// SPDX-License-Identifier: MIT
// Errors of a start-up.
#pragma once

#include <string>
#include <utility>

#include "qpmesh/error.hpp"

namespace qpmesh::bootstrap {

inline ErrorDetail init_error(ErrorCode code, int peer, std::string cause, std::string hint = {},
                              int system_error = 0) {
  return {.code = code,
          .peer = peer,
          .operation = "init",
          .cause = std::move(cause),
          .system_error = system_error,
          .hint = std::move(hint)};
}

[[noreturn]] inline void fail_init(ErrorCode code, int peer, std::string cause,
                                   std::string hint = {}, int system_error = 0) {
  throw Error{init_error(code, peer, std::move(cause), std::move(hint), system_error)};
}

// What a rank gathered from another makes no sense.
[[noreturn]] inline void fail_corrupt_blob(int rank, std::string cause) {
  fail_init(ErrorCode::corrupt, rank, std::move(cause),
            "the bootstrap must hand every rank's blob to every rank as it is, in rank order");
}

}  // namespace qpmesh::bootstrap
