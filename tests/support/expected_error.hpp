// SPDX-License-Identifier: MIT
// An error as a test expects it: every field, and texts as a whole. What differs from run to run (a
// process id, a time) is a
// '*' in the pattern.
#pragma once

#include <string>
#include <string_view>

#include "qpmesh/error.hpp"

namespace qpmesh::test {

// The whole text, where each '*' of the pattern stands for any text, the empty one too.
inline bool matches(std::string_view text, std::string_view pattern) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return text == pattern;
  if (!text.starts_with(pattern.substr(0, star))) return false;
  text.remove_prefix(star);
  pattern.remove_prefix(star + 1);
  for (;; text.remove_prefix(1)) {
    if (matches(text, pattern)) return true;
    if (text.empty()) return false;
  }
}

inline constexpr int any_system_error = -1;  // a matter of timing

struct ExpectedError {
  ErrorCode code = ErrorCode::internal;
  int peer = no_peer;
  std::string operation{};
  std::string cause{};
  std::string hint{};
  int system_error = 0;
};

// Empty when every field is as expected; otherwise a sentence that says what is not.
inline std::string difference(const Error& error, const ExpectedError& expected) {
  const auto differs = [&](std::string_view field, std::string_view is,
                           std::string_view should_be) {
    return std::string{field} + " is \"" + std::string{is} + "\", expected \"" +
           std::string{should_be} + "\" in \"" + error.what() + "\"";
  };
  if (error.code() != expected.code)
    return differs("the code", to_string(error.code()), to_string(expected.code));
  if (error.peer() != expected.peer)
    return differs("the peer", std::to_string(error.peer()), std::to_string(expected.peer));
  if (error.operation() != expected.operation)
    return differs("the operation", error.operation(), expected.operation);
  if (!matches(error.cause(), expected.cause))
    return differs("the cause", error.cause(), expected.cause);
  if (!matches(error.hint(), expected.hint))
    return differs("the hint", error.hint(), expected.hint);
  if (expected.system_error != any_system_error && error.system_error() != expected.system_error) {
    return differs("the system's error", std::to_string(error.system_error()),
                   std::to_string(expected.system_error));
  }
  return {};
}

}  // namespace qpmesh::test
