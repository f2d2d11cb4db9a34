// SPDX-License-Identifier: MIT
// What the log says of strangers.
#pragma once

#include <cstdint>
#include <sstream>
#include <string>

namespace qpmesh::test {

struct Dropped {
  std::uint64_t connections = 0;
  std::uint64_t lines = 0;
};

inline Dropped dropped_in(const std::string& log) {
  const std::string words = " warning: dropped ";
  Dropped all;
  std::istringstream stream{log};
  for (std::string line; std::getline(stream, line);) {
    const std::size_t at = line.find(words);
    if (at == std::string::npos) continue;
    all.connections += std::stoull(line.substr(at + words.size()));
    ++all.lines;
  }
  return all;
}

}  // namespace qpmesh::test
