// How ranks of one host find each other's sockets, prove who they are, and hand over memory.
//
// The higher rank calls, the lower one listens. The kernel says which process is on the other side
// (SO_PEERCRED), the greeting says which of its ranks, the token says that it belongs to this
// meeting, the nonce says that the memory is the promised one.
#pragma once

#include <span>
#include <vector>

#include "base/log.hpp"
#include "base/owned.hpp"
#include "base/system.hpp"
#include "bootstrap/agreement.hpp"
#include "bootstrap/introduction.hpp"
#include "bootstrap/meeting.hpp"

namespace qpmesh::bootstrap {

struct Link {
  LocalPeer memory;
  base::UniqueFd socket;
  base::UniqueFd pidfd;  // empty for a rank of this very process, and on kernels without pidfds
};

// Whether two ranks must be able to share memory.
bool same_place(const Introduction& a, const Introduction& b);

// Links with every rank in the same place, and reports what went wrong in outcome: never throws for
// the doings of a peer. Throws Error{no_resource} where their arenas exceed RLIMIT_AS. Goes on with
// the others when one fails, so that their ends of it do not fail too. An unauthenticated peer at
// the listener is dropped: at once when the kernel says that it is another process, after
// handshake_timeout_ms when it keeps silent. links: in rank order.
void link_local_peers(const base::System& system, const base::Log& log, int listener,
                      const LocalOffer& offer, std::span<const Introduction> everybody, int rank,
                      std::int64_t handshake_timeout_ms, Deadline deadline,
                      std::vector<Link>& links, Outcome& outcome);

}  // namespace qpmesh::bootstrap
