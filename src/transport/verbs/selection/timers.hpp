// How long a queue pair tries before its link has failed, and how long its packets are.
#pragma once

#include <cstdint>

#include "transport/verbs/selection/choice.hpp"

namespace qpmesh::transport::verbs::selection {

// The local one's, in the encoding of ibv_qp_attr.
struct Timers {
  std::uint8_t timeout = 15;        // 4.096 µs · 2^timeout until a packet is sent again
  std::uint8_t retry_count = 7;     // never 7 on rxe: there it means for ever
  std::uint8_t rnr_retry = 6;       // 7 means for ever by definition
  std::uint8_t min_rnr_timer = 12;  // 0.64 ms
};
// link_timeout_ms: how long a peer's device may stay silent before the link has failed; rounded up to what can be
// encoded. 0 chooses: about 1 s. Emulated guests need 10 s.
Timers timers_for(const Endpoint& local, std::int64_t link_timeout_ms) noexcept;
// The other way round: timeout · (retries + 1).
std::int64_t give_up_ms(const Timers& timers) noexcept;

// The smaller one of the two ports'.
int path_mtu_bytes(const Endpoint& local, const Endpoint& peer) noexcept;

}  // namespace qpmesh::transport::verbs::selection
