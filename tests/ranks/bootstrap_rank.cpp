// SPDX-License-Identifier: MIT
// One rank as a launcher starts it: finds out who it is, meets the others in three all_gathers of
// each of two starts, checks what everyone said. Exit code 0 and one line, or 1 and the error.
// --free-port prints a port for launch_by_hand.sh.
#include <fmt/format.h>
#include <netinet/in.h>

#include <cstdio>
#include <string_view>

#include "base/bytes.hpp"
#include "bootstrap/launcher.hpp"
#include "qpmesh/error.hpp"
#include "tests/support/loopback_sockets.hpp"

namespace {

bool meet_once(const qpmesh::bootstrap::Identity& identity, int ordinal,
               const qpmesh::base::System& system, const qpmesh::base::Log& log) {
  const auto bootstrap =
      qpmesh::bootstrap::make_bootstrap(identity, ordinal, qpmesh::Options{}, system, log);
  for (int round = 0; round < 3; ++round) {
    const std::string text =
        fmt::format("{} of {} in start {} round {}", identity.rank, identity.size, ordinal, round);
    const auto blobs = bootstrap->all_gather(std::as_bytes(std::span{text}),
                                             qpmesh::base::after_ms(system, 10'000));
    if (blobs.size() != static_cast<std::size_t>(identity.size)) return false;
    for (int rank = 0; rank < identity.size; ++rank) {
      const std::string expected =
          fmt::format("{} of {} in start {} round {}", rank, identity.size, ordinal, round);
      const auto& blob = blobs[static_cast<std::size_t>(rank)];
      if (std::string_view{reinterpret_cast<const char*>(blob.data()), blob.size()} != expected)
        return false;
    }
  }
  return true;
}

}  // namespace

int main(int count, char** arguments) {
  if (count == 2 && std::string_view{arguments[1]} == "--free-port") {
    fmt::print("{}\n", ntohs(qpmesh::test::loopback_port().address.sin_port));
    return 0;
  }
  try {
    const auto identity = qpmesh::bootstrap::identify(qpmesh::bootstrap::process_environment());
    // A launcher that a test expects by name, and a size: being alone would pass everything else.
    if (count == 3 &&
        (identity.launcher != arguments[1] || std::to_string(identity.size) != arguments[2])) {
      fmt::print(stderr, "started as one of {} by {}, expected {} by {}\n", identity.size,
                 identity.launcher, arguments[2], arguments[1]);
      return 1;
    }
    const qpmesh::base::System system;
    const qpmesh::base::Log log{qpmesh::LogLevel::warning, identity.rank};
    for (const int ordinal : {0, 1}) {
      if (meet_once(identity, ordinal, system, log)) continue;
      fmt::print(stderr, "rank {}: wrong blobs in start {}\n", identity.rank, ordinal);
      return 1;
    }
    fmt::print("rank {} of {} ({})\n", identity.rank, identity.size, identity.launcher);
    return 0;
  } catch (const qpmesh::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
