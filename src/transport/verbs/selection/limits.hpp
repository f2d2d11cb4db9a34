// Whether a device has room for what a rank needs of it.
#pragma once

#include <cstdint>

#include "transport/verbs/selection/facts.hpp"

namespace qpmesh::transport::verbs::selection {

// Of one rank. A queue that overflows loses completions, so each holds all that can be under way.
struct QueueNeeds {
  std::uint32_t peers = 0;
  std::uint32_t sends = 0;     // work requests of one queue pair
  std::uint32_t receives = 0;  // the same; the larger the rings, the more
};
// Throws Error{no_resource} with the need, the device's limit and the option that lowers the need.
void require_room(const DeviceFacts& device, const QueueNeeds& needs);

}  // namespace qpmesh::transport::verbs::selection
