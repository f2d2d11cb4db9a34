// SPDX-License-Identifier: MIT
// What qpmesh-run tells ranks that start up: which ranks have ended. Nobody else could say so of a
// rank that ended before it called init, and the others would wait for it until their deadline.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/owned.hpp"
#include "base/system.hpp"

namespace qpmesh::bootstrap {

// As it goes over the socket, in one piece.
struct EndedRank {
  std::int32_t rank = -1;
  std::int32_t pid = 0;
  std::int32_t code = 0;  // as a shell has it: the exit code, or 128 + signal
};

// The abstract Unix socket at which the job's qpmesh-run listens.
std::string ended_ranks_socket(const std::string& job);

// Readable when there is news. Empty without a socket, or where nobody of our user listens at it.
base::UniqueFd connect_to_ended_ranks(const base::System& system, const std::string& socket);
// Those that have ended since the last call. Never waits; closes what qpmesh-run has closed.
std::vector<EndedRank> read_ended_ranks(const base::System& system, base::UniqueFd& socket);

// How it ended, for people: "rank 2 (pid 123) ended with code 0".
std::string to_string(const EndedRank& ended);
inline constexpr const char* hint_for_ended_rank =
    "every rank must call init: look at what that rank said before it ended";

}  // namespace qpmesh::bootstrap
