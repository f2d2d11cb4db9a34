// Was the machine ours? Who does nothing but read the clock sees every time that somebody else had its core.
#pragma once

#include <chrono>

namespace qpmesh::bench {

// The largest gap between successive reads of the clock while so much time passes.
template <class Clock = std::chrono::steady_clock>
std::chrono::duration<double> idle_gap(std::chrono::duration<double> length) {
  const auto begin = Clock::now();
  typename Clock::duration largest{0};
  for (auto last = begin; last - begin < length;) {
    const auto now = Clock::now();
    largest = now - last > largest ? now - last : largest;
    last = now;
  }
  return largest;
}

}  // namespace qpmesh::bench
