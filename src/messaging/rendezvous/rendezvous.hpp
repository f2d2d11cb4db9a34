// Large messages: the sender offers, the receiver answers how (inside collectives, before the
// offer: announcements.cpp).
//
//   pull        the offer names the source, and the receiver can load it, or copy it out of the
//   sender's private memory: it does,
//               and says finished (pull.cpp)
//   read        the offer names the source, and the receiver's device reads it: an option
//   (MessagingConfig::rendezvous) write       the receiver opens its buffer; the sender writes into
//   it and says finished behind the last
//               write
//   pipelined   the sender streams segments through the payload ring; works everywhere
//
// Who may touch the buffers: the source belongs to the operation until it is done (pull and read:
// until finished comes; write: until the last write's completion). The target is written by the
// peer only between clear_to_send and finished, and by our own device until the completion of the
// last read.
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
// Opens the receive to the peer, in whichever way it can be, and says so; sender_operation: 0
// before there is an offer. False: no number is left for it.
bool answer(Core& core, Peer& peer, ReceiveOperation& receive, std::uint32_t sender_operation);
// The same, or else the communicator fails.
void answer_or_fail(Core& core, Peer& peer, ReceiveOperation& receive,
                    std::uint32_t sender_operation);
void handle_clear_to_send(Core& core, Peer& peer, const Record& record);
// A send has met its answer.
void proceed(Core& core, Peer& peer, SendOperation& send, std::uint8_t flags,
             const RendezvousBody& body);
void handle_finished(Core& core, Peer& peer, const Record& record);
// Takes an operation out of every list and gives back what was registered for it.
void finish_send(Core& core, SendOperation& send) noexcept;
void finish_receive(Core& core, ReceiveOperation& receive) noexcept;
// Where the peer may write the message; nothing: it comes through the payload ring.
std::optional<transport::RemoteAddress> open_target(Core& core, Peer& peer,
                                                    ReceiveOperation& receive);
void close_target(Peer& peer, ReceiveOperation& receive) noexcept;
void close_source(Peer& peer, SendOperation& send) noexcept;
void fail_without_number(Core& core, const Peer& peer, const ReceiveOperation& receive);

// ---- pull.cpp: the receiver copies ----

// False: answer the offer in another way.
bool pull(Core& core, Peer& peer, ReceiveOperation& receive, const OfferBody& offered,
          std::uint8_t flags);
void handle_help(Core& core, Peer& peer, const HelpBody& body);
// Ends receives whose senders have ended filling them.
void look_at_fillings(Core& core);
// And those whose senders are gone. Costs calls of the system.
void end_fillings_of_the_dead(Core& core);

// ---- read.cpp: the receiver's device reads ----

// False: answer the offer in another way.
bool begin_read(Core& core, Peer& peer, ReceiveOperation& receive, const OfferBody& offered);
// Posts what the connection takes. True: nothing is left to do.
bool read_through(Core& core, Peer& peer, ReceiveOperation& receive);

// ---- write.cpp: the sender's device writes ----

// Posts what the connection takes. True: nothing is left to do.
bool write_through(Core& core, Peer& peer, SendOperation& send);

// ---- stream.cpp: segments through the payload ring ----

// One segment. False: nothing can be posted now.
bool stream(Core& core, Peer& peer, SendOperation& send);
void handle_segment(Core& core, Peer& peer, const TakenMessage& message);

// ---- preposted.cpp: collectives answer before they are asked ----

void announce(Core& core, ReceiveOperation& receive);
// The message of an announced receive has come up in its order.
void confirm(Core& core, Peer& peer, ReceiveOperation& receive, const RecordHeader& header);
void handle_announcement(Core& core, Peer& peer, const RecordHeader& header,
                         const RendezvousBody& body);
// For a send whose offer has just been made.
void take_announcement(Core& core, Peer& peer, SendOperation& send);

// ---- revoke.cpp: memory comes back to its owner ----

// Ends an operation of a failed communicator, at once or when no device touches its buffer any
// more.
void close(Core& core, ReceiveOperation& receive, const Error& failure) noexcept;
void close(Core& core, SendOperation& send, const Error& failure) noexcept;
void handle_withdraw(Core& core, Peer& peer, const RendezvousBody& body);
void handle_withdrawn(Core& core, Peer& peer, const RendezvousBody& body);
void end_closing(Core& core, ReceiveOperation& receive) noexcept;
void end_closing(Core& core, SendOperation& send) noexcept;
// Ends at once what still waits for this rank, for too long, or in this communicator, by tearing
// down connections.
void tear_down_with(Core& core, int rank) noexcept;
void tear_down_overdue(Core& core) noexcept;
void tear_down_communicator(Core& core, std::uint64_t communicator) noexcept;
// What this communicator offers for loading is void from here on.
void revoke_offers(Core& core, std::uint64_t communicator) noexcept;

}  // namespace qpmesh::messaging
