// SPDX-License-Identifier: MIT
// How long a job takes to start: from the first rank's main to the last one's return from init, of
// ranks on one host. scripts/start-up runs it for several numbers of ranks and transports.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <span>
#include <vector>

#include "qpmesh/qpmesh.hpp"

namespace {

// Of the clock that all processes of a host share.
std::int64_t now_us() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

}  // namespace

int main() try {
  const std::int64_t begun_at = now_us();
  qpmesh::Communicator world = qpmesh::init();
  const std::array<std::int64_t, 2> mine{begun_at, now_us()};
  std::vector<std::int64_t> all(2 * static_cast<std::size_t>(world.size()));
  world.allgather(mine, all);
  const std::int64_t first_message_at = now_us();
  std::int64_t first = all[0];
  std::int64_t last = all[1];
  for (std::size_t i = 0; i < all.size(); i += 2) {
    first = std::min(first, all[i]);
    last = std::max(last, all[i + 1]);
  }
  if (world.rank() == 0) {
    fmt::print("{} ranks: init {:.1f} ms, first allgather {:.1f} ms\n", world.size(),
               static_cast<double>(last - first) / 1'000,
               static_cast<double>(first_message_at - last) / 1'000);
  }
  world.finish();
} catch (const qpmesh::Error& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
