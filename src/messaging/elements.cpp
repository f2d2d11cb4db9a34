// SPDX-License-Identifier: MIT
#include "messaging/elements.hpp"

#include <fmt/format.h>

namespace qpmesh::messaging {

ErrorDetail wrong_step_length(int peer, std::size_t bytes, std::size_t bytes_due) {
  return {.code = ErrorCode::mismatch,
          .peer = peer,
          .cause = bytes == 0 ? fmt::format("nothing came where {} bytes were due", bytes_due)
                              : fmt::format("a step of {} bytes arrived where {} were due", bytes,
                                            bytes_due),
          .hint = "the two ends of a block must give it the same length"};
}

ErrorDetail undue_step(int peer) {
  return {.code = ErrorCode::mismatch,
          .peer = peer,
          .cause = "a step came before this one where none was due",
          .hint = "the two ends of a block must give it the same length"};
}

}  // namespace qpmesh::messaging
