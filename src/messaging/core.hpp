// SPDX-License-Identifier: MIT
// What the parts of messaging share: what belongs to a rank and to a context, and how records leave
// and arrive.
// Private to src/messaging.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "messaging/fastest_way.hpp"
#include "messaging/matching.hpp"
#include "messaging/messaging.hpp"
#include "messaging/patience.hpp"
#include "messaging/rings/ready_receive.hpp"
#include "messaging/rings/receive_ring.hpp"
#include "messaging/rings/send_ring.hpp"
#include "messaging/slot_map.hpp"

namespace qpmesh::messaging {

using Ring = SendRing<ProcessAtomics>;
using Ready = ReadyReceive<ProcessAtomics>;

// Shorter payloads are stored through the caches, wherever the cores are.
inline constexpr std::size_t store_choice_bytes_min = std::size_t{2} << 10;
inline constexpr std::size_t long_way_bytes_min = std::size_t{4} << 10;
// Longer messages, up to so many bytes, are worth a call of the system where their receiver stands
// ready.
inline constexpr std::size_t ready_bytes_min = std::size_t{4} << 10;
inline constexpr std::size_t ready_bytes_max = std::size_t{32} << 10;
static_assert(ready_bytes_max <= 0xffff);  // fits its part of a ReadyReceive

// A message that its receiver copies by itself.
struct Pull {
  ReceiveOperation* receive = nullptr;
  OfferBody offered{};
  bool is_private = false;
  // Where the sender fills the rest: so many bytes are ours to copy, and are they?
  std::size_t first_bytes = 0;
  bool copied = false;
};

// What is sent to a peer before it has said where to. The same at both ends. At least four fill a
// ring: then a sender's credits always suffice for the next, wherever the ring wraps.
struct EagerBytes {
  std::size_t message_max = 0;
  std::size_t step_max = 0;  // of a collective

  EagerBytes within(const RingLayout& layout) const noexcept {
    const std::size_t quarter = layout.payload_ring_units * unit_bytes / 4;
    return {.message_max = std::min(message_max, quarter),
            .step_max = std::min(std::max(message_max, step_max), quarter)};
  }
  std::size_t max(std::uint64_t key) const noexcept {
    return is_collective(key) ? step_max : message_max;
  }
};

struct Peer {
  Peer(int peer_rank, const PeerPlaces& places, const EagerBytes& wanted)
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
        ready{*reinterpret_cast<Ready*>(places.slot + RingLayout::ready_receive_offset)},
        remote_ready{
            copies_private()
                ? reinterpret_cast<const Ready*>(neighbour->at(
                      places.remote_slot.offset + RingLayout::ready_receive_offset, sizeof(Ready)))
                : nullptr},
        remote_revocations{places.remote_revocations},
        is_self{places.is_self},
        eager{wanted.within(places.layout)} {}

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
  // How payloads are stored into the peer's ring: through our caches, or past them.
  FastestWays<store_choice_bytes_min, 5> stores;
  // How long private messages of the peer come, by placement (rendezvous/ways.cpp).
  std::array<FastestWays<long_way_bytes_min, 12>, 3> long_ways;
  int long_timed = 0;         // of those under way: as long as there are any, all ends are noted
  Deadline long_ended{};      // the last one
  Ready& ready;               // ours, of what this peer sends
  const Ready* remote_ready;  // the peer's; nullptr: it has none
  // A message of some KiB, while it stood in a send or waited for one. We have sent it none of a
  // payload since.
  bool was_pulled_from = false;
  Patience ready_patience;  // until it stands ready then
  // Whether to stand ready has been faster, by the length of the receive.
  FastestWays<2 * ready_bytes_min, 4> ready_ways;
  Pull filling;  // without receive: none. The peer has begun to fill it
  transport::RemoteAddress remote_revocations;
  bool is_self;
  EagerBytes eager;

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
  Patience patience;
  int streams_in = 0;  // pipelined rendezvous that this peer sends to us now

  // Records of kind revoke: ours, those of them that the peer was told of, and the peer's that
  // came.
  std::uint32_t revokes_sent = 0;
  std::uint32_t revokes_told = 0;
  std::uint32_t revokes_taken = 0;

  bool wants_credit = false;
  bool freed_payload = false;  // outside of a sweep: credits may be due
  bool starved = false;        // we wait for the peer's credits: say so in the next record

  bool failed = false;  // nothing is sent or taken any more
  bool reported = false;
  ErrorDetail failure;
  std::size_t pinned_bytes = 0;  // from first_pinned on; not used by messages that are awaited

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
    return control.empty() && queued.empty() && streams.empty() && writes.empty() &&
           reads.empty() && revokes_told == revokes_sent;
  }
};

// Private memory that was closed to the device of a rank which had not answered for it.
struct ClosedMemory {
  int rank = -1;
  bool is_target = false;    // of its writes; otherwise the source of its reads
  std::uint32_t number = 0;  // ours, of the operation that is gone
  std::span<const std::byte> memory;
};

struct Core {
  Core(progress::Engine& its_engine, const base::System& its_system, const base::Log& its_log,
       Listener& its_listener, const MessagingConfig& its_config, int rank_count)
      : engine{its_engine},
        system{its_system},
        log{its_log},
        listener{its_listener},
        config{its_config},
        peers(static_cast<std::size_t>(rank_count)),
        matching{rank_count} {}

  Peer& peer(int rank) const noexcept { return *peers[static_cast<std::size_t>(rank)]; }
  void note_gone(std::uint64_t communicator) noexcept {
    gone[communicator % gone.size()] = communicator;
  }
  bool is_gone(std::uint64_t communicator) const noexcept {
    return gone[communicator % gone.size()] == communicator;
  }
  // The operations with these numbers, if they are with this peer.
  SendOperation* find_send(const Peer& peer, std::uint32_t number) const noexcept {
    SendOperation* const send = sends.find(number);
    return send != nullptr && send->target == peer.rank ? send : nullptr;
  }
  ReceiveOperation* find_receive(const Peer& peer, std::uint32_t number) const noexcept {
    ReceiveOperation* const receive = receives.find(number);
    return receive != nullptr && receive->message_source == peer.rank ? receive : nullptr;
  }

  progress::Engine& engine;
  const base::System& system;
  const base::Log& log;
  Listener& listener;
  MessagingConfig config;
  std::vector<std::unique_ptr<Peer>> peers;  // by rank; nullptr: not connected
  std::vector<Peer*> connected;
  std::vector<transport::Transport*> transports;
  Matching matching;
  SlotMap<SendOperation> sends;  // those of large messages
  SlotMap<ReceiveOperation> receives;
  // Communicators, by id; empty while all is well.
  std::vector<std::pair<std::uint64_t, const Error*>> failed;
  // Ids of communicators that went before all their messages had come: those are dropped. Ids are
  // hashes, and another one may take the place of an older one. The first value is no id's: 1 would
  // stand in the second place.
  std::array<std::uint64_t, 64> gone{1};
  bool registration_failed = false;  // and was warned of
  bool links_failed = false;         // some peer's failure is not reported yet
  int closing = 0;                   // operations in that state
  Deadline closing_until{};          // then their memory is closed, or their connections torn down
  // Until the rank answers. Its device may repeat a write for longer, and drivers give a key again
  // (mlx5's): into a message that has the same memory and the same key it would land.
  std::vector<ClosedMemory> closed;
  int fillings = 0;  // Peer::filling
  std::size_t unexpected_bytes = 0;
  Counters counters;
};

// Posts a record with its payload, after a second look at the peer's credits where they are short.
Ring::Sent post(Core& core, Peer& peer, Record& record, std::span<const std::byte> payload,
                Ring::Priority priority);
// The same of what SendRing::store_inline() and store() take.
Ring::Sent post_inline(Core& core, Peer& peer, const Outgoing& message);
Ring::Sent post(Core& core, Peer& peer, RecordFields& fields, std::span<const std::byte> payload,
                std::uint32_t receiver_operation = 0);
inline std::uint64_t nanoseconds(Deadline::duration time) noexcept {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(time).count());
}
// Posts a record of rendezvous control, or keeps it until a line is free. Throws std::bad_alloc.
void send_control(Core& core, Peer& peer, const RecordFields& fields, const RendezvousBody& body);
// Posts what waits for the peer, in its order.
void advance(Core& core, Peer& peer);
void return_credits(Core& core, Peer& peer);
// Takes what the peer has sent, and posts what waits for it. True when there was anything.
bool poll_peer(Core& core, Peer& peer);
// Its operation is gone.
inline void count_stale(Core& core) noexcept { ++core.counters.stale_answers; }

// Of the first record of a send.
inline RecordFields fields_of(const Outgoing& send, RecordKind kind,
                              std::size_t body_bytes) noexcept {
  return {.kind = kind,
          .body_bytes = body_bytes,
          .communicator = send.communicator,
          .key = send.key,
          .total_bytes = send.bytes,
          .signature = send.signature};
}

// ---- eager.cpp: small and medium messages, matched when they come or kept for their receive

// The whole message into the peer's ring, if it may go there, or to a receive of our own. On
// anything but posted it is the caller's still.
Ring::Sent post_eagerly(Core& core, Peer& peer, const Outgoing& message);
bool try_send(Core& core, Peer& peer, SendOperation& send);
void handle_message(Core& core, Peer& peer, const TakenMessage& message);
void take_unexpected(Core& core, ReceiveOperation& receive, Unexpected& message);
void discard(Core& core, Unexpected& message) noexcept;
void move_out_of_ring(Core& core, Peer& peer);
void unblock_ring(Core& core, Peer& peer) noexcept;  // which has a pinned message

// ---- failed_operations.cpp: how operations end when they cannot succeed

void link_failed(Core& core, Peer& peer, ErrorCode code, std::string_view cause) noexcept;
void report_failed_links(Core& core);
const Error* failure_of(Core& core, std::uint64_t communicator) noexcept;

}  // namespace qpmesh::messaging
