// SPDX-License-Identifier: MIT
// Prints how many thousand times a second this processor counts its time stamp counter, by which an
// emulated processor counts, too.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <thread>

namespace {

using Clock = std::chrono::steady_clock;

struct Look {
  Clock::time_point time;
  std::uint64_t ticks = 0;
};

// Of many the one that took least: who loses the processor between the two clocks looks again.
Look look() {
  Look best;
  std::uint64_t least = UINT64_MAX;
  for (int i = 0; i < 100; ++i) {
    const std::uint64_t before = __builtin_ia32_rdtsc();
    const Clock::time_point time = Clock::now();
    const std::uint64_t took = __builtin_ia32_rdtsc() - before;
    if (took >= least) continue;
    least = took;
    best = {.time = time, .ticks = before + took / 2};
  }
  return best;
}

}  // namespace

int main() {
  const Look first = look();
  std::this_thread::sleep_for(std::chrono::milliseconds{50});
  const Look last = look();
  const std::chrono::duration<double, std::milli> passed = last.time - first.time;
  std::printf("%.0f\n", static_cast<double>(last.ticks - first.ticks) / passed.count());
}
