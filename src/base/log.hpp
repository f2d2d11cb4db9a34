// SPDX-License-Identifier: MIT
// Log lines for people: rare, one write(2) each, to stderr, prefixed with the rank. Never on the
// hot path.
#pragma once

#include <fmt/core.h>

#include <array>
#include <string_view>

#include "qpmesh/options.hpp"

namespace qpmesh::base {

using qpmesh::LogLevel;
inline constexpr std::array<std::string_view, 5> log_level_names{"off", "error", "warning", "info",
                                                                 "debug"};

class Log {
 public:
  // rank: to begin lines with; -1: of nobody.
  explicit Log(LogLevel level = LogLevel::warning, int rank = -1) noexcept
      : level_{level}, rank_{rank} {}

  bool enabled(LogLevel level) const noexcept { return level <= level_; }

  template <class... T>
  void error(fmt::format_string<T...> format, T&&... values) const {
    write(LogLevel::error, format, fmt::make_format_args(values...));
  }
  template <class... T>
  void warning(fmt::format_string<T...> format, T&&... values) const {
    write(LogLevel::warning, format, fmt::make_format_args(values...));
  }
  template <class... T>
  void info(fmt::format_string<T...> format, T&&... values) const {
    write(LogLevel::info, format, fmt::make_format_args(values...));
  }
  template <class... T>
  void debug(fmt::format_string<T...> format, T&&... values) const {
    write(LogLevel::debug, format, fmt::make_format_args(values...));
  }

 private:
  // Swallows its own failures: a full disk must not end a job.
  void write(LogLevel level, fmt::string_view format, fmt::format_args values) const noexcept;

  LogLevel level_;
  int rank_;
};

}  // namespace qpmesh::base
