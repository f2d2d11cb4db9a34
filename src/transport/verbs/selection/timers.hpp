// How long a queue pair tries before its link has failed, and how long its packets are.
#pragma once

#include <cstdint>

#include "transport/verbs/selection/choice.hpp"

namespace qpmesh::transport::verbs::selection {

// Of the local end; the first four as ibv_qp_attr encodes them.
struct Timers {
  std::uint8_t timeout = 15;        // 4.096 µs · 2^timeout until a packet is sent again
  std::uint8_t retry_count = 7;     // on rxe this means for ever
  std::uint8_t rnr_retry = 6;       // 7 means for ever by definition
  std::uint8_t min_rnr_timer = 12;  // 0.64 ms
  // The connection gives up by its own clock after this silence, because its device never does. 0:
  // the device gives up.
  std::int64_t silence_ms_max = 0;
};
// link_timeout_ms: how long a peer's device may stay silent before the link has failed. 0 chooses:
// about 1 s for an adapter, which rounds a given time up to what can be encoded, and 8 s for a
// software device.
//
// A software device answers only when its host's processors come to it, so a host that is paused or
// busy looks dead. And rxe counts every packet that came out of order as a try: where a network
// reorders, its seven are used up in milliseconds. So it tries for ever, every 134 ms, and the
// connection keeps the time.
Timers timers_for(const Endpoint& local, std::int64_t link_timeout_ms) noexcept;
// After how much silence the link has failed.
std::int64_t give_up_ms(const Timers& timers) noexcept;
// How long a link may be idle before an empty write asks whether the peer's device still answers. A
// rank that only receives sends nothing, and would never learn that its link has failed.
std::int64_t heartbeat_ms(const Timers& timers) noexcept;

// The smaller one of the two ports'.
int path_mtu_bytes(const Endpoint& local, const Endpoint& peer) noexcept;

}  // namespace qpmesh::transport::verbs::selection
