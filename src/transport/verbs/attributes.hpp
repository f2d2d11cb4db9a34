// What ibv_modify_qp is told on the way from RESET to RTS: pure functions of what the two ends agreed on.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

#include "transport/verbs/choice.hpp"

namespace qpmesh::transport::verbs {

// The two ends of a queue pair, once their endpoints were chosen. psn: 24 bits, random, of that end's sends.
struct QueuePairEnd {
  Endpoint endpoint;
  std::uint32_t qpn = 0;
  std::uint32_t psn = 0;
};

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

struct Attributes {
  ibv_qp_attr values{};
  int mask = 0;
};
// access: IBV_ACCESS_… that the peer's writes need on this queue pair.
Attributes to_init(const Endpoint& local, unsigned access);
Attributes to_rtr(const QueuePairEnd& local, const QueuePairEnd& peer, const Timers& timers);
Attributes to_rts(const QueuePairEnd& local, const QueuePairEnd& peer, const Timers& timers);

// How the local end addresses the peer: what to_rtr uses, and what ibv_create_ah proves to have a route.
ibv_ah_attr route_to(const Endpoint& local, const Endpoint& peer);
// The smaller one of the two ports'.
int path_mtu_bytes(const Endpoint& local, const Endpoint& peer) noexcept;

}  // namespace qpmesh::transport::verbs
