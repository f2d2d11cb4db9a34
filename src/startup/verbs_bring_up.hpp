// SPDX-License-Identifier: MIT
// Links over verbs: agreement on devices and GIDs, queue pairs, rings in registered memory.
#pragma once

#include "qpmesh/bootstrap.hpp"
#include "startup/reach.hpp"

namespace qpmesh::startup {

// Collective where any pair could go this way: every rank calls it, also one that has no such peer.
// Pairs that verbs cannot join go another way where the options allow one, which reach then says.
// Throws the same Error on all ranks.
NetworkLinks link_verbs(Bootstrap& bootstrap, Reach& reach, const context::ContextParts& parts,
                        Deadline deadline);

}  // namespace qpmesh::startup
