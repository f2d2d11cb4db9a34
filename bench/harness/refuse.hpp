// SPDX-License-Identifier: MIT
// What the user of a benchmark asked for and cannot have. Every rank reads the same command line
// and finds the same mistake, so one of them is enough to say it.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "qpmesh/error.hpp"

namespace qpmesh::bench {

inline constexpr std::string_view refusal = "options";  // the operation that these errors name

[[noreturn]] inline void refuse(std::string cause, std::string hint) {
  throw Error({.code = ErrorCode::bad_argument,
               .operation = std::string{refusal},
               .cause = std::move(cause),
               .hint = std::move(hint)});
}

inline bool is_refusal(const Error& error) noexcept {
  return error.code() == ErrorCode::bad_argument && error.operation() == refusal;
}

}  // namespace qpmesh::bench
