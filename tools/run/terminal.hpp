// What qpmesh-run has to do with those who started it: their signals, and messages to them.
#pragma once

#include <signal.h>

#include <array>
#include <string>

#include "base/owned.hpp"

namespace qpmesh::run {

inline constexpr std::array<int, 5> forwarded_signals{SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};

// Blocks these and SIGCHLD, and answers with the descriptor where they are read. Throws RunError.
base::UniqueFd take_signals(sigset_t& mask_before);

void say(const std::string& line);

}  // namespace qpmesh::run
