// SPDX-License-Identifier: MIT
// Numbers travel around a ring: in every step each rank hands on what it got last and takes its
// neighbour's, in one sendrecv, so that nobody waits for somebody who waits for it. After N-1 steps
// every rank has seen the number of every other; an allreduce asks whether that holds everywhere.
// What goes wrong is one exception, whose text names rank, operation and cause.
#include <qpmesh/qpmesh.hpp>

#include <algorithm>
#include <cstdio>
#include <vector>

int main() {
  try {
    auto world = qpmesh::init();
    const int size = world.size();
    const int next = (world.rank() + 1) % size;
    const int previous = (world.rank() + size - 1) % size;

    std::vector<int> times_seen(static_cast<std::size_t>(size), 0);
    int passing = world.rank();
    int arriving = 0;
    times_seen.at(static_cast<std::size_t>(passing)) += 1;
    for (int step = 1; step < size; ++step) {
      world.sendrecv(passing, next, arriving, previous);
      passing = arriving;
      times_seen.at(static_cast<std::size_t>(passing)) += 1;
    }

    const bool all_once =
        std::all_of(times_seen.begin(), times_seen.end(), [](int times) { return times == 1; });
    const bool everywhere = world.allreduce(all_once, qpmesh::logical_and);
    if (world.rank() == 0) {
      const char* const who = everywhere ? "every rank" : "not every rank";
      std::printf("%d steps around %d ranks: %s has seen every number\n", size - 1, size, who);
    }
    world.finish();
    return everywhere ? 0 : 1;
  } catch (const qpmesh::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
