// A collective knows how long each message of its is, and its signature says most of that. What is
// left are the blocks of a v-form, whose lengths only the two ends of a message know.
#pragma once

#include <fmt/core.h>

#include <cstddef>

#include "qpmesh/error.hpp"

namespace qpmesh::messaging {

inline ErrorDetail wrong_step_length(int peer, std::size_t bytes, std::size_t bytes_due) {
  return {.code = ErrorCode::mismatch,
          .peer = peer,
          .cause = fmt::format("a step of {} bytes arrived where {} were due", bytes, bytes_due),
          .hint = "the two ends of a block must give it the same length"};
}

}  // namespace qpmesh::messaging
