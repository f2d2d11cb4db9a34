// SPDX-License-Identifier: MIT
// How often a test repeats: seldom in the gate, often where TESTS_LONG is set, as scripts/test
// --all does.
#pragma once

#include <cstdlib>

namespace qpmesh::test {

// NOLINTNEXTLINE(concurrency-mt-unsafe): nobody sets it
inline bool runs_long() { return std::getenv("TESTS_LONG") != nullptr; }
inline int times(int in_the_gate, int in_a_long_run) {
  return runs_long() ? in_a_long_run : in_the_gate;
}

}  // namespace qpmesh::test
