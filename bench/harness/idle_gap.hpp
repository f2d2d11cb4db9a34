// SPDX-License-Identifier: MIT
// Was the machine ours? Who does nothing but read the clock sees every time that somebody else had
// its core.
#pragma once

#include <chrono>

namespace qpmesh::bench {

// The largest gap between successive reads of the clock while so much time passes.
template <class Now>
std::chrono::duration<double> idle_gap(std::chrono::duration<double> length, Now&& now) {
  using Time = std::chrono::steady_clock::time_point;
  Time::duration largest{0};
  const Time begin = now();
  for (Time last = begin; last - begin < length;) {
    const Time next = now();
    largest = next - last > largest ? next - last : largest;
    last = next;
  }
  return largest;
}

}  // namespace qpmesh::bench
