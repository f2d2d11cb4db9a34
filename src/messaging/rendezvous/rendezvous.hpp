// SPDX-License-Identifier: MIT
// Large messages: the sender offers, the receiver answers how (inside collectives before the offer:
// preposted.cpp).
//
//   pull       The offer names the source, and the receiver loads it, or copies it out of the
//              sender's private memory. Then it says finished.
//   read       The offer names the source, and the receiver's device reads it, if
//              MessagingConfig::rendezvous says so.
//   write      The receiver opens its buffer. The sender writes into it, and says finished behind
//              the last write.
//   pipelined  The sender streams segments through the payload ring. Works everywhere.
//
// Who may touch the buffers: the source belongs to the operation until it is done (pull and read:
// until finished comes; write: until the last write's completion). The target is written by the
// peer only between clear_to_send and finished, and by our own device until its last read is done.
#pragma once

#include <cstdint>
#include <optional>

#include "messaging/core.hpp"

namespace qpmesh::messaging {

// ---- offer.cpp: the two ends agree on a way ----

// Makes the record that offers a send. Leaves number 0 where none is left.
void offer(Core& core, Peer& peer, SendOperation& send, Record& record);
// A receive has met its offer.
void accept_offer(Core& core, Peer& peer, ReceiveOperation& receive, const OfferBody& offered,
                  std::uint8_t flags);
// Opens the receive to the peer, in whichever way it can be, and says so; where no number is left
// for it the communicator fails. sender_operation: 0 before there is an offer.
void answer(Core& core, Peer& peer, ReceiveOperation& receive, std::uint32_t sender_operation);
void handle_clear_to_send(Core& core, Peer& peer, const Record& record);
// A send has met its answer.
void proceed(Core& core, Peer& peer, SendOperation& send, const Record& answer);
void handle_finished(Core& core, Peer& peer, const Record& record);
// Takes an operation out of every list, gives back what was registered for it, and completes it: a
// closing one with the failure that it has.
void finish(Core& core, SendOperation& send, const Error* failure = nullptr) noexcept;
void finish(Core& core, ReceiveOperation& receive, const Error* failure = nullptr) noexcept;
// Where the peer may write the message; nothing: it comes through the payload ring.
std::optional<transport::RemoteAddress> open_target(Core& core, Peer& peer,
                                                    ReceiveOperation& receive);
// Gives back what was registered for one operation alone. False: the peer's device may reach it
// yet.
bool close_memory(Peer& peer, std::optional<transport::RemoteAddress>& opened) noexcept;

// ---- pull.cpp: the receiver copies ----

enum class Help : std::uint8_t { wanted, not_wanted };
// False: answer the offer in another way.
bool pull(Core& core, Peer& peer, ReceiveOperation& receive, const OfferBody& offered,
          bool is_private, Help help = Help::wanted);
void handle_help(Core& core, Peer& peer, const HelpBody& body);
// Ends receives that are filled, and those whose senders are gone, which costs calls of the system.
void look_at_fillings(Core& core, bool for_the_dead);

// Have we long messages for it, under way?
inline bool sends_long(const Peer& peer) noexcept {
  return !peer.offered.empty() || !peer.streams.empty();
}

// ---- ways.cpp: how private memory of a rank of the node comes, as the receiver finds it ----

// False: answer the offer; the bytes come through the payload ring.
bool take_fastest_way(Core& core, Peer& peer, ReceiveOperation& receive, const OfferBody& offered);
// Such a message is here.
void note_long_end(Core& core, Peer& peer, ReceiveOperation& receive) noexcept;
// Its time, if it is timed, is no way's: it has failed, or comes another way.
void forget_time(Peer& peer, ReceiveOperation& receive) noexcept;

// ---- zero_copy.cpp: a device moves the message, the receiver's by reads or the sender's by writes

// False: answer the offer in another way.
bool begin_read(Core& core, Peer& peer, ReceiveOperation& receive, const OfferBody& offered);
// Post what the connection takes, and end the operation when all of it is complete.
void read_through(Core& core, Peer& peer, ReceiveOperation& receive);
void write_through(Core& core, Peer& peer);

// ---- stream.cpp: segments through the payload ring ----

// One segment. False: nothing can be posted now.
bool stream(Core& core, Peer& peer, SendOperation& send);
void handle_segment(Core& core, Peer& peer, const TakenMessage& message);

// ---- preposted.cpp: collectives answer before they are asked ----

void prepost(Core& core, ReceiveOperation& receive);
// The message of a preposted receive has come up in its order.
void confirm(Core& core, Peer& peer, ReceiveOperation& receive, const RecordHeader& header);
void handle_preposted(Core& core, Peer& peer, const Record& answer);
// For a send whose offer has just been made.
void take_preposted(Core& core, Peer& peer, SendOperation& send);

// ---- revoke.cpp: memory comes back to its owner ----

// Ends an operation of a failed communicator, once no device touches its buffer any more.
void close(Core& core, ReceiveOperation& receive, const Error& failure) noexcept;
void close(Core& core, SendOperation& send, const Error& failure) noexcept;
// The count of revokes, where the peer does not have it yet, if it can be posted now.
void tell_revokes(Peer& peer) noexcept;
// The peer takes memory back, and the record that says which is still to come. Who posts meanwhile
// may name that memory, which costs the connection when the peer does not wait any more.
inline bool awaits_revoke(const Peer& peer) noexcept {
  return mutant != Mutant::revoke_word &&
         static_cast<std::int32_t>(peer.in.revokes_heard() - peer.revokes_taken) > 0;
}
void handle_revoke(Core& core, Peer& peer, const RendezvousBody& body);
void handle_revoked(Core& core, Peer& peer, const RendezvousBody& body);
// To an operation that is gone, or does not wait for it: nothing of the peer's comes for the memory
// of the one that had the number.
void take_late_answer(Core& core, const Peer& peer, bool is_target, std::uint32_t number) noexcept;
// Nothing is under way of it any more: ends it, and tells a peer that waits for that.
void finish_written(Core& core, Peer& peer, SendOperation& send,
                    const Error* failure = nullptr) noexcept;
// Ends what is closing, all, or that of a rank or a communicator: no device reaches its memory any
// more when it ends, and where that cannot be had otherwise its connection is torn down.
void end_closing(Core& core, std::optional<int> rank,
                 std::optional<std::uint64_t> communicator) noexcept;
// What this communicator offers for loading is void from here on.
void revoke_offers(Core& core, std::uint64_t communicator) noexcept;

}  // namespace qpmesh::messaging
