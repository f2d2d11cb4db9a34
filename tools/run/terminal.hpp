// SPDX-License-Identifier: MIT
// What qpmesh-run has to do with those who started it: their signals, and messages to them.
#pragma once

#include <signal.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <string>

#include "base/owned.hpp"
#include "base/system.hpp"

namespace qpmesh::run {

inline constexpr std::array forwarded_signals{SIGINT,  SIGTERM, SIGHUP, SIGQUIT,
                                              SIGUSR1, SIGUSR2, SIGTSTP};

// Blocks these and SIGCHLD, and answers with the descriptor where they are read. Throws RunError.
base::UniqueFd take_signals(sigset_t& mask_before);

// Of who was told to end: its ranks end within the first grace, and who reads what they said has
// the second. After that a reader goes on as long as it takes something so often.
inline constexpr std::chrono::milliseconds reader_patience{100};
inline Deadline until_readers_are_left(const base::System& system, int grace_ms) {
  return system.now() + std::max(2 * std::chrono::milliseconds{grace_ms}, reader_patience);
}

// Stops this process until SIGCONT, as SIGTSTP does where nobody reads it. A shell sees that.
void stop();

void say(const std::string& line);

}  // namespace qpmesh::run
