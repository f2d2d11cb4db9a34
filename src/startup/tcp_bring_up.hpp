// Links over TCP: where each rank listens, one authenticated stream for each pair, rings in the
// arena.
#pragma once

#include <cstdint>

#include "messaging/rings/layout.hpp"
#include "qpmesh/bootstrap.hpp"
#include "startup/reach.hpp"

namespace qpmesh::startup {

// Collective where any pair goes this way: every rank calls it, also one that has no such peer.
// slab_offset: of this rank's rings in its arena, for all ranks. Throws the same Error on all
// ranks: link_failed or timeout with every address that was tried, no_resource where a rank has
// none.
NetworkLinks link_tcp(Bootstrap& bootstrap, const Reach& reach, const context::ContextParts& parts,
                      const messaging::RingLayout& layout, std::uint64_t slab_offset,
                      Deadline deadline);

}  // namespace qpmesh::startup
