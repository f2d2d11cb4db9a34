// What a tool has to say, on its stdout.
#pragma once

#include <fmt/core.h>

#include <cerrno>
#include <cstdio>
#include <stdexcept>
#include <string_view>
#include <system_error>

namespace qpmesh {

// Throws std::runtime_error where it is lost, as on a full disk: a tool whose report nobody can
// read has not succeeded.
inline void print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    throw std::runtime_error{
        fmt::format("the report cannot be written: {}", std::generic_category().message(errno))};
}

}  // namespace qpmesh
