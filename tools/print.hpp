// SPDX-License-Identifier: MIT
// What a tool has to say, on its stdout or into a file.
#pragma once

#include <fmt/core.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace qpmesh {

// Throws std::runtime_error where it is lost, as on a full disk: a tool whose report nobody can
// read has not succeeded.
inline void print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    throw std::runtime_error{
        fmt::format("the report cannot be written: {}", std::generic_category().message(errno))};
}

// The same into a file.
inline void write_file(const std::string& path, std::string_view text) {
  std::ofstream file{path};
  file << text;
  file.close();
  if (!file) throw std::runtime_error{fmt::format("{} cannot be written", path)};
}

// "0-3,8"
inline std::string ranges(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    auto last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", numbers[i]);
    if (last != i) text += fmt::format("-{}", numbers[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace qpmesh
