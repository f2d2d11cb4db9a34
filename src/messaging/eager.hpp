// Small and medium messages: matched when they come, or kept until their receive does.
#pragma once

#include "messaging/core.hpp"

namespace qpmesh::messaging {

bool try_send(Core& core, Peer& peer, SendOperation& send);
void handle_message(Core& core, Peer& peer, const TakenMessage& message);
void take_unexpected(Core& core, ReceiveOperation& receive, Unexpected& message);
void discard(Core& core, Unexpected& message) noexcept;
void move_out_of_ring(Core& core, Peer& peer);
void recheck_unexpected(Core& core, std::uint64_t communicator, std::uint32_t operation);

}  // namespace qpmesh::messaging
