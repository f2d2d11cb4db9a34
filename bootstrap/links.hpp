// SPDX-License-Identifier: MIT
// How ranks that have heard of each other in the first gather connect and prove who they are, and
// how ranks of one place hand over their memory.
//
// A stream for each pair (streams.hpp): over an abstract Unix socket in one place, over TCP
// elsewhere. In one place the kernel says which process is on the other side, arena and doorbell
// come with the welcome and its acknowledgement, and the nonce says that the memory is the promised
// one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/interrupt.hpp"
#include "base/log.hpp"
#include "base/owned.hpp"
#include "base/system.hpp"
#include "bootstrap/agreement.hpp"
#include "bootstrap/control_channel.hpp"
#include "bootstrap/handshake.hpp"
#include "bootstrap/introduction.hpp"
#include "bootstrap/meeting.hpp"
#include "bootstrap/socket.hpp"

namespace qpmesh::bootstrap {

struct Link {
  ControlLink control;
  LocalPeer memory;  // of a rank of the same place; rank is -1 otherwise
};

// Whether two ranks must be able to share memory.
bool same_place(const Introduction& a, const Introduction& b);

// What calls to this rank are proven with. Made of what every rank put into the first gather: only
// ranks of this meeting know it. Each rank's is another one, so that what was proven to one proves
// nothing to the next.
Key key_of_listener(std::span<const Introduction> everybody, int rank);

struct LinkSettings {
  int rank = 0;
  const LocalOffer& offer;
  std::int64_t handshake_timeout_ms = 2'000;
  std::int64_t silence_ms_max = 0;  // of a TCP link's other end; 0: as set_up has it
  // Of this rank, who has shown the public one; nullptr: links to other places are not encrypted.
  const base::KeyPair* key_pair = nullptr;
  Deadline deadline{};
  base::StartCheck check{};
};

// Before the arenas of so many other ranks are mapped, together of so many bytes. Throws
// Error{no_resource} naming RLIMIT_AS, what is in use and the sum.
void require_address_space(int arenas, std::uint64_t bytes);

// Links with every other rank, and reports what went wrong: never throws for the doings of a peer.
// Throws Error{no_resource} where a call of the system's fails, and what settings.check throws.
// listeners: all at which this rank is called. addresses: by rank, of those in other places; they
// are tried in turn, in several rounds. Goes on with the others when one fails, so that their ends
// of it do not fail too. The links are in rank order.
std::vector<Link> link_peers(const LinkSettings& settings, std::vector<base::UniqueFd> listeners,
                             std::span<const Introduction> everybody,
                             std::span<const std::vector<HostPort>> addresses, Report& report,
                             const base::System& system, const base::Log& log);

}  // namespace qpmesh::bootstrap
