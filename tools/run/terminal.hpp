// What qpmesh-run has to do with those who started it: their signals, and messages to them.
#pragma once

#include <signal.h>

#include <array>
#include <chrono>
#include <string>

#include "base/owned.hpp"
#include "base/system.hpp"

namespace qpmesh::run {

inline constexpr std::array<int, 5> forwarded_signals{SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};

// Blocks these and SIGCHLD, and answers with the descriptor where they are read. Throws RunError.
base::UniqueFd take_signals(sigset_t& mask_before);

// Of who was told to end: its ranks end within the first grace, and who reads what they said has
// the second.
inline Deadline until_readers_are_left(const base::System& system, int grace_ms) {
  return system.now() + 2 * std::chrono::milliseconds{grace_ms};
}

void say(const std::string& line);

}  // namespace qpmesh::run
