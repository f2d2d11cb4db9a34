// SPDX-License-Identifier: MIT
#include "qpmesh/version.h"

#include <string_view>

// The text and the numbers are one version.
static_assert([] {
  constexpr int numbers[]{QPMESH_VERSION_MAJOR, QPMESH_VERSION_MINOR, QPMESH_VERSION_PATCH};
  std::string_view text{QPMESH_VERSION};
  for (const int expected : numbers) {
    int number = 0;
    for (; !text.empty() && text.front() != '.'; text.remove_prefix(1))
      number = number * 10 + (text.front() - '0');
    if (number != expected) return false;
    if (!text.empty()) text.remove_prefix(1);
  }
  return text.empty();
}());

const char* qpmesh_version(void) { return QPMESH_VERSION; }
