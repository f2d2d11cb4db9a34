// SPDX-License-Identifier: MIT
#include "collectives/group.hpp"

#include "messaging/elements.hpp"
#include "qpmesh/error.hpp"

namespace qpmesh::collectives {

void rethrow_failure(const messaging::SendOperation& send) {
  if (send.failure != nullptr) throw Error{*send.failure};
}

void rethrow_failure(const Group& group, const messaging::ReceiveOperation& receive) {
  if (receive.failure != nullptr) throw Error{*receive.failure};
  if (receive.message_bytes == receive.capacity_bytes) return;
  throw Error{messaging::wrong_step_length(group.rank_of(receive.message_source),
                                           receive.message_bytes, receive.capacity_bytes)};
}

}  // namespace qpmesh::collectives
