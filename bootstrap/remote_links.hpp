// How ranks that are not in the same place find each other, over TCP, and prove who they are.
//
// As in local_links, the higher rank calls and the lower one listens. The handshake is the star's:
// both sides prove that they know the listener's key, over fresh nonces; the caller's hello says
// which rank it is. The listener counts the link when the caller has acknowledged its welcome:
// until then a caller whose connection broke may call again.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/log.hpp"
#include "base/owned.hpp"
#include "base/system.hpp"
#include "bootstrap/agreement.hpp"
#include "bootstrap/introduction.hpp"
#include "bootstrap/listener.hpp"

namespace qpmesh::bootstrap {

struct RemoteLink {
  int rank = -1;
  base::UniqueFd socket;  // connected, set up, nothing read from it but the handshake
  std::string address;    // of the other end
};

// Whether some ranks are not in the same place: they need a Listener, and the meeting a third
// gather. The same answer on every rank. A rank that could not prepare itself is not waited for:
// its report ends the meeting.
bool scattered(std::span<const Introduction> everybody);

// Links with every rank that is not in the same place, and reports what went wrong in outcome:
// never throws for the doings of a peer. outcomes: of the second gather. Tries a peer's addresses
// in turn, each for handshake_timeout_ms at most, in several rounds. The first failure ends it
// here, and all links are hung up; ranks that wait for this one learn of it at their deadline.
// links: in rank order.
void link_remote_peers(const base::System& system, const base::Log& log, Listener& listener,
                       std::span<const Introduction> everybody, std::span<const Outcome> outcomes,
                       int rank, std::int64_t handshake_timeout_ms, Deadline deadline,
                       std::vector<RemoteLink>& links, Outcome& outcome);

}  // namespace qpmesh::bootstrap
