// SPDX-License-Identifier: MIT
// What follows from a device's facts: how receivers learn of writes, how long a link tries, how
// long its packets are, and whether the queues fit.
#pragma once

#include <cstdint>
#include <string_view>

#include "transport/transport.hpp"
#include "transport/verbs/selection/choice.hpp"

namespace qpmesh::transport::verbs::selection {

#if defined(__x86_64__)
inline constexpr bool x86_host = true;
#else
inline constexpr bool x86_host = false;
#endif

// What a receiver can rely on.
struct Notifications {
  Notification small = Notification::immediate;
  Notification medium = Notification::immediate;
  std::string_view reason{};
  bool bytes_in_order = false;  // the device vouches for it, and the self-test saw nothing else
};
// poll relies on writes of one connection becoming visible in order, which no specification
// promises: it is for devices and processors that are known to keep it. Others get immediates.
Notifications default_notifications(const DeviceFacts& device, LinkLayer link_layer,
                                    bool x86 = x86_host);
// What both of two devices keep.
Notifications less_of(const Notifications& one, const Notifications& other) noexcept;

// Of the local end; the first four as ibv_qp_attr encodes them.
struct Timers {
  std::uint8_t timeout = 15;        // 4.096 µs · 2^timeout until a packet is sent again
  std::uint8_t retry_count = 7;     // on rxe this means for ever
  std::uint8_t rnr_retry = 6;       // 7 means for ever by definition
  std::uint8_t min_rnr_timer = 12;  // 0.64 ms
  // After this silence the connection gives up, because its device never does. 0: the device does.
  std::int64_t silence_ms_max = 0;
};
// link_timeout_ms: how long a peer's device may stay silent before the link has failed. 0 chooses:
// about 1 s for an adapter, which rounds a given time up to what can be encoded, and 8 s for a
// software device.
//
// A software device answers only when its host's processors come to it, so a host that is paused or
// busy looks dead. And rxe counts every packet that came out of order as a try: where a network
// reorders, its seven are used up in milliseconds. So it tries for ever, every 134 ms, and the
// connection keeps the time. So it does over iWARP, where TCP tries for minutes.
Timers timers_for(const Endpoint& local, std::int64_t link_timeout_ms) noexcept;
// After how much silence the link has failed.
std::int64_t give_up_ms(const Timers& timers) noexcept;
// How long a link may be idle before an empty write asks whether the peer's device still answers. A
// rank that only receives sends nothing, and would never learn that its link has failed.
std::int64_t heartbeat_ms(const Timers& timers) noexcept;

// The smaller one of the two ports'.
int path_mtu_bytes(const Endpoint& local, const Endpoint& peer) noexcept;

// Of one rank. A queue that overflows loses completions, so each holds all that can be under way.
struct QueueNeeds {
  std::uint32_t peers = 0;
  std::uint32_t sends = 0;     // work requests of one queue pair
  std::uint32_t receives = 0;  // the same; the larger the rings, the more
};
// Throws Error{no_resource} with the need, the device's limit and the option that lowers the need.
void require_room(const DeviceFacts& device, const QueueNeeds& needs);
// How many peers can share a completion queue of the device for sends, and one for receives: at
// least 1, at most all.
std::uint32_t peers_per_queue(const DeviceFacts& device, const QueueNeeds& needs) noexcept;

}  // namespace qpmesh::transport::verbs::selection
