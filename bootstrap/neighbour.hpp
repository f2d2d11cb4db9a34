// What a rank of this place must show: that it is the process it said, and that the memory it hands
// over is the one it announced. All throw Error{authentication} where it is not, Error{no_resource}
// where a call failed.
#pragma once

#include <array>

#include "base/log.hpp"
#include "base/owned.hpp"
#include "base/system.hpp"
#include "bootstrap/introduction.hpp"
#include "bootstrap/meeting.hpp"

namespace qpmesh::bootstrap {

using Descriptors = std::array<base::UniqueFd, 2>;  // arena, doorbell

// A system call of ours failed while linking with a rank.
[[noreturn]] void fail_call(const char* call, int error, int peer);

void check_process(const base::System& system, int socket, const Introduction& peer);

// Looks at size, seals and nonce of the arena. Before anything is mapped: a memory that could
// shrink would end this process with SIGBUS.
LocalPeer take_memory(const base::System& system, const base::Log& log, Descriptors& descriptors,
                      const Introduction& peer, const LocalOffer& offer);

// A pidfd; empty on kernels without. Throws Error{peer_dead} where the process is gone.
base::UniqueFd open_process(const base::System& system, const base::Log& log,
                            const Introduction& peer);

}  // namespace qpmesh::bootstrap
