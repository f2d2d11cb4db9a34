#include "collectives/group.hpp"

#include "messaging/step_length.hpp"
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

void combine_left(std::byte* target, const std::byte* operand, const std::byte* arrived,
                  std::size_t bytes, const void* context) {
  const std::array<const std::byte*, 2> sources{arrived, operand};
  (*static_cast<const Reducer*>(context))(target, sources, bytes);
}

void combine_right(std::byte* target, const std::byte* operand, const std::byte* arrived,
                   std::size_t bytes, const void* context) {
  const std::array<const std::byte*, 2> sources{operand, arrived};
  (*static_cast<const Reducer*>(context))(target, sources, bytes);
}

}  // namespace qpmesh::collectives
