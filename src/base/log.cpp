// SPDX-License-Identifier: MIT
#include "base/log.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <exception>
#include <string>

namespace qpmesh::base {
void Log::write(LogLevel level, fmt::string_view format, fmt::format_args values) const noexcept {
  if (!enabled(level)) return;
  try {
    const auto name = log_level_names[static_cast<std::size_t>(level)];
    std::string line = rank_ < 0 ? fmt::format("qpmesh {}: ", name)
                                 : fmt::format("qpmesh rank {} {}: ", rank_, name);
    line += fmt::vformat(format, values);
    line += '\n';
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
  } catch (const std::exception&) {
    return;  // out of memory while describing something: the thing itself is reported elsewhere
  }
}

}  // namespace qpmesh::base
