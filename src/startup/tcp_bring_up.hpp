// SPDX-License-Identifier: MIT
// Links over TCP: where each rank listens, one authenticated stream for each pair, rings in the
// arena.
#pragma once

#include "qpmesh/bootstrap.hpp"
#include "startup/reach.hpp"

namespace qpmesh::startup {

// Collective where any pair goes this way: every rank calls it, also one that has no such peer.
// Throws the same Error on all ranks: link_failed or timeout with every address that was tried,
// no_resource where a rank has none, or its arena no room for the rings.
NetworkLinks link_tcp(Bootstrap& bootstrap, const Reach& reach, const context::ContextParts& parts,
                      Deadline deadline);

}  // namespace qpmesh::startup
