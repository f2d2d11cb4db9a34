// SPDX-License-Identifier: MIT
// What ibv_modify_qp is told on the way from RESET to RTS, from what the two ends agreed on.
#pragma once

#include <infiniband/verbs.h>

#include "transport/verbs/diagnosis/statuses.hpp"

namespace qpmesh::transport::verbs {

struct Attributes {
  ibv_qp_attr values{};
  int mask = 0;
};
// access: IBV_ACCESS_… that the peer's writes need on this queue pair.
Attributes to_init(const selection::Endpoint& local, unsigned access);
Attributes to_rtr(const diagnosis::LinkDescription& link);
Attributes to_rts(const diagnosis::LinkDescription& link);

// The two as the communication manager gives them, with its route, numbers and mask; what this
// library decides for itself is that of to_rtr and to_rts: timers, reads, and no longer packets
// than both ports carry. A service level or flow label that is not 0 is this library's, too. The
// traffic class is the manager's, or this library's where the manager has 0.
Attributes keep_to_link(const Attributes& by_cm, const diagnosis::LinkDescription& link);

// How the local end addresses the peer: to_rtr uses it, and ibv_create_ah proves that it has a
// route.
ibv_ah_attr route_to(const selection::Endpoint& local, const selection::Endpoint& peer);

}  // namespace qpmesh::transport::verbs
