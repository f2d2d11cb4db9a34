// What messaging keeps per rank. Private to src/messaging.
#pragma once

#include <algorithm>
#include <deque>

#include "messaging/matching.hpp"
#include "messaging/messaging.hpp"
#include "messaging/rings/receive_ring.hpp"
#include "messaging/rings/send_ring.hpp"
#include "messaging/slot_map.hpp"

namespace qpmesh::messaging {

using Ring = SendRing<ProcessAtomics>;

// A message that its receiver copies by itself.
struct Pull {
  ReceiveOperation* receive = nullptr;
  OfferBody offered{};
  std::uint8_t flags = 0;
  // Where the sender fills the rest: so many bytes are ours to copy, and are they?
  std::size_t first_bytes = 0;
  bool copied = false;
};

struct Peer {
  Peer(int peer_rank, const PeerPlaces& places, std::size_t eager_bytes)
      : rank{peer_rank},
        transport{*places.transport},
        connection{*places.connection},
        capabilities{places.connection->capabilities()},
        neighbour{places.neighbour},
        out{connection,
            capabilities,
            {.slot = places.remote_slot,
             .credit_cell = places.slot + RingLayout::credit_cell_offset,
             .staging = places.staging},
            places.layout,
            places.send_seed,
            places.receive_seed},
        in{connection, capabilities, places.slot, places.layout, places.receive_seed},
        guard{
            *reinterpret_cast<transport::FillGuard*>(places.slot + RingLayout::fill_guard_offset)},
        remote_guard{neighbour == nullptr
                         ? nullptr
                         : reinterpret_cast<transport::FillGuard*>(neighbour->at(
                               places.remote_slot.offset + RingLayout::fill_guard_offset,
                               sizeof(transport::FillGuard)))},
        remote_revocations{places.remote_revocations},
        eager_bytes_limit{places.layout.payload_ring_units * unit_bytes / 4},
        eager_bytes_max{std::min(eager_bytes, eager_bytes_limit)} {}

  int rank;
  transport::Transport& transport;
  transport::Connection& connection;
  const transport::Capabilities& capabilities;
  const transport::Neighbour* neighbour;  // nullptr: not of this node
  SendRing<ProcessAtomics> out;
  ReceiveRing<ProcessAtomics> in;
  transport::FillGuard& guard;         // ours, for the end of what this peer sends
  transport::FillGuard* remote_guard;  // the peer's, as mapped here
  std::uint32_t helps = 0;             // asked for
  base::FillShare help_share;
  Pull filling;  // without receive: none. The peer has begun to fill it
  transport::RemoteAddress remote_revocations;
  // Four of them fill a ring: then a sender's credits always suffice for the next, wherever the
  // ring wraps. Both ends have this bound, whatever their options say.
  std::size_t eager_bytes_limit;
  std::size_t eager_bytes_max;

  // What could not be posted yet, in the order in which it is tried: control, then sends in their
  // order, then the bytes of rendezvous under way.
  std::deque<Record> control;
  List<SendOperation> queued;
  List<SendOperation> streams;
  List<SendOperation> writes;
  List<ReceiveOperation> reads;

  List<SendOperation> offered;   // in order; not answered
  std::deque<Record> preposted;  // answers in order, whose sends have not begun

  // Unmatched payloads still in the payload ring, in ring order.
  Unexpected* first_pinned = nullptr;
  Unexpected* last_pinned = nullptr;
  int streams_in = 0;  // pipelined rendezvous that this peer sends to us now

  bool wants_credit = false;
  bool freed_payload = false;  // outside of a sweep: credits may be due
  bool starved = false;        // we wait for the peer's credits: say so in the next record

  bool failed = false;  // nothing is sent or taken any more
  bool reported = false;
  ErrorDetail failure;

  // Much, or anything when the peer says that it is short.
  bool credits_due() const noexcept {
    const Credits consumed = in.consumed();
    return out.owes(consumed) || (wants_credit && !out.has_told(consumed));
  }
  bool copies_private() const noexcept {
    return neighbour != nullptr && neighbour->copies_private();
  }
  bool has_more_to_do() const noexcept { return wants_credit || freed_payload || !idle_out(); }
  bool idle_out() const noexcept {
    return control.empty() && queued.empty() && streams.empty() && writes.empty() && reads.empty();
  }
};

}  // namespace qpmesh::messaging
