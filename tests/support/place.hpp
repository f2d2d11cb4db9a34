// SPDX-License-Identifier: MIT
// Where in the code something was asked for.
#pragma once

#include <source_location>
#include <string_view>

namespace qpmesh::test {

#ifdef __cpp_lib_source_location
using Place = std::source_location;
#else  // clang 14, which only clang-tidy reads this with
struct Place {
  static constexpr Place current() { return {}; }
  static constexpr const char* file_name() { return "?"; }
  static constexpr const char* function_name() { return "?"; }
  static constexpr unsigned line() { return 0; }
  static constexpr unsigned column() { return 0; }
};
#endif

// The file without its folders.
inline std::string_view file_name(const Place& at) {
  const std::string_view path = at.file_name();
  return path.substr(path.rfind('/') + 1);
}

}  // namespace qpmesh::test
