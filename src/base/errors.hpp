// SPDX-License-Identifier: MIT
// Errors that are thrown in many places. A cause is formatted from values that are taken one by one
// and not by reference: a caller's hot path then keeps them in registers.
#pragma once

#include <fmt/core.h>

#include <exception>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "qpmesh/error.hpp"

namespace qpmesh::base {

[[noreturn]] void throw_formatted(ErrorDetail what, std::string_view operation,
                                  std::string_view hint, fmt::string_view cause,
                                  fmt::format_args values);

// what: the code, and where they are known the peer and errno.
template <class... T>
[[noreturn, gnu::cold, gnu::noinline]] void throw_error(ErrorDetail what,
                                                        std::string_view operation,
                                                        std::string_view hint,
                                                        fmt::format_string<T&...> cause,
                                                        T... values) {
  throw_formatted(std::move(what), operation, hint, cause, fmt::make_format_args(values...));
}

template <class... T>
[[noreturn, gnu::cold, gnu::noinline]] void bad_argument(std::string_view operation,
                                                         std::string_view hint,
                                                         fmt::format_string<T&...> cause,
                                                         T... values) {
  throw_formatted({.code = ErrorCode::bad_argument}, operation, hint, cause,
                  fmt::make_format_args(values...));
}

// The cause where memory is missing: so short that a std::string of it needs none.
inline constexpr std::string_view no_memory = "no memory here";

// What the step throws: an Error without its peer and code, or that there is no memory.
template <class F>
std::optional<ErrorDetail> thrown_by(F&& step) {
  try {
    try {
      step();
    } catch (const Error& error) {
      return ErrorDetail{
          .cause = error.cause(), .system_error = error.system_error(), .hint = error.hint()};
    }
  } catch (const std::bad_alloc&) {
    return ErrorDetail{.cause = std::string{no_memory}};
  }
  return std::nullopt;
}

// What was thrown, in words.
std::string text_of(const std::exception_ptr& thrown);

// A hint for the errno of a call that makes a descriptor, with the limit; empty for other errors.
std::string hint_for_descriptors(int error);

// EMFILE or ENFILE where hardly a descriptor is left, else 0. Libraries that lack one say that
// something else is missing.
int descriptors_error();

}  // namespace qpmesh::base
