// What the parts of messaging share: what belongs to a context, and how records leave and arrive.
// Private to src/messaging.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "messaging/messaging.hpp"
#include "messaging/peer.hpp"

namespace qpmesh::messaging {

struct Core {
  Core(progress::Engine& its_engine, const base::System& its_system, const base::Log& its_log,
       Listener& its_listener, const MessagingConfig& its_config, int rank_count)
      : engine{its_engine},
        system{its_system},
        log{its_log},
        listener{its_listener},
        config{its_config},
        peers(static_cast<std::size_t>(rank_count)) {}

  Peer& peer(int rank) const noexcept { return *peers[static_cast<std::size_t>(rank)]; }
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
  bool registration_failed = false;  // and was warned of
  bool links_failed = false;         // some peer's failure is not reported yet
  int closing = 0;                   // operations in that state
  Deadline closing_until{};          // then their connections are torn down
  int fillings = 0;                  // Peer::filling
  std::size_t unexpected_bytes = 0;
  Counters counters;
};

// Posts a record with its payload, after a second look at the peer's credits where they are short.
Ring::Sent post(Core& core, Peer& peer, Record& record, std::span<const std::byte> payload,
                Ring::Priority priority);
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
inline RecordFields fields_of(const SendOperation& send, RecordKind kind,
                              std::size_t body_bytes) noexcept {
  return {.kind = kind,
          .body_bytes = body_bytes,
          .communicator = send.communicator,
          .key = send.key,
          .total_bytes = send.bytes,
          .signature = send.signature};
}

// ---- eager.cpp: small and medium messages, matched when they come or kept for their receive

bool try_send(Core& core, Peer& peer, SendOperation& send);
void handle_message(Core& core, Peer& peer, const TakenMessage& message);
void take_unexpected(Core& core, ReceiveOperation& receive, Unexpected& message);
void discard(Core& core, Unexpected& message) noexcept;
void move_out_of_ring(Core& core, Peer& peer);

// ---- failure.cpp: how operations end when they cannot succeed

void link_failed(Core& core, Peer& peer, ErrorCode code, std::string_view cause) noexcept;
void report_failed_links(Core& core);
const Error* failure_of(Core& core, std::uint64_t communicator) noexcept;

}  // namespace qpmesh::messaging
