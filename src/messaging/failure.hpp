// How operations end when they cannot succeed: links that fail, communicators that fail, and who is
// still awaited.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "messaging/core.hpp"

namespace qpmesh::messaging {

void link_failed(Core& core, Peer& peer, ErrorCode code, std::string cause);
void look_at_links(Core& core);
void give_up(Core& core, int rank) noexcept;
void report_failed_links(Core& core);
const Error* failure_of(Core& core, std::uint64_t communicator) noexcept;
void fail(Core& core, std::uint64_t communicator, const Error& failure);
std::optional<int> awaited(Core& core, std::uint64_t communicator);
// The rank that fills the buffer of a receive here.
std::optional<int> fills(Core& core, std::uint64_t communicator) noexcept;
bool waits_for_anybody(Core& core, std::uint64_t communicator);
bool waits_for(Core& core, std::uint64_t communicator, int peer);
void discard_messages(Core& core, std::uint64_t communicator) noexcept;
void forget(Core& core, std::uint64_t communicator) noexcept;

}  // namespace qpmesh::messaging
