// SPDX-License-Identifier: MIT
// Messages between the ranks of a context, written once above all transports.
//
// The rules that keep it from hanging:
// - Record rings are always drained. What nobody waits for yet goes to the unexpected queue, which
//   has a cap: beyond it the communicator fails with the sender's name, and nothing stalls.
// - Returning credits needs no line. Rendezvous control has lines that data never takes.
// - A sender short of payload space degrades to rendezvous. Before a pipelined rendezvous is
//   answered, unmatched payload of that peer is moved out of the ring, and stays out while the
//   rendezvous lasts.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "base/atomics.hpp"
#include "base/log.hpp"
#include "base/system.hpp"
#include "messaging/matching.hpp"
#include "messaging/operations.hpp"
#include "messaging/rings/layout.hpp"
#include "progress/engine.hpp"
#include "qpmesh/error.hpp"
#include "qpmesh/options.hpp"
#include "transport/neighbour.hpp"
#include "transport/transport.hpp"

namespace qpmesh::messaging {

// Who knows which collectives this rank has called.
class CallChecker {
 public:
  virtual ~CallChecker() = default;
  // Does a peer's collective agree with our own call of this number? False: a report is under way.
  virtual bool agrees(int peer, std::uint64_t communicator, std::uint32_t operation,
                      std::uint32_t signature) = 0;
};

// What messaging tells the floor above. A record of a collective that does not agree is dropped.
class Listener : public CallChecker {
 public:
  // The connection to detail.peer is unusable; called once per peer.
  virtual void link_failed(ErrorDetail detail) = 0;
  // One communicator cannot go on.
  virtual void communicator_failed(std::uint64_t communicator, ErrorDetail detail) = 0;
};

struct MessagingConfig {
  // At most a quarter of a peer's payload ring, whatever is asked for. Nothing: as the connection
  // to each peer is said to need.
  std::optional<std::size_t> eager_bytes_max;
  // From this size on private buffers are registered for one message; copying less is cheaper.
  std::size_t register_bytes_min = 0;
  RendezvousChoice rendezvous = RendezvousChoice::write;
  std::size_t unexpected_bytes_max = 0;
  std::size_t unexpected_messages_max = 0;
  int spins_max = 0;      // of spin_for; 0 where ranks share cores, and it finds out what pays
  bool measures = false;  // ways to move the same bytes are timed, and the fastest is taken
  bool cooperative_copies = false;           // a sender of the node that only waits copies, too
  base::Revocations* revocations = nullptr;  // ours, where peers can load it
};

// So long a peer may take to give a buffer back. Then the buffer is closed to its device, or the
// link between two healthy ranks is given up, rather than an error kept from the user.
inline constexpr std::int64_t revocation_ms_max = 100;

// What messaging needs to talk to one rank.
struct PeerPlaces {
  transport::Transport* transport = nullptr;
  transport::Connection* connection = nullptr;
  const transport::Neighbour* neighbour = nullptr;  // where it is one
  RingLayout layout{};                              // of both slots
  std::byte* slot = nullptr;                        // our memory that this peer writes
  transport::RemoteAddress remote_slot{};           // the peer's memory that we write
  transport::RemoteAddress remote_revocations{};    // the peer's counter, where it can be loaded
  std::span<std::byte> staging;  // empty where the transport copies while posting
  bool is_self = false;          // the rank is this one
  std::uint32_t send_seed = 0;   // of the checksums of the two directions
  std::uint32_t receive_seed = 0;
};

// What has happened, for tests and logs.
struct Counters {
  std::uint64_t records_sent = 0;
  std::uint64_t segments_sent = 0;
  std::uint64_t zero_copy_sends = 0;
  std::uint64_t pulls = 0;
  std::uint64_t helped_pulls = 0;  // whose second half the sender copied
  std::uint64_t reads = 0;
  std::uint64_t preposted_receives = 0;  // answered before their offer came
  std::uint64_t preposted_sends = 0;     // that found their answer waiting
  std::uint64_t credit_writes = 0;
  std::uint64_t control_waits = 0;  // rendezvous control that found no line
  std::uint64_t degraded = 0;       // eager sends that became rendezvous for want of payload space
  std::uint64_t stale_answers = 0;  // to operations that are gone
  std::uint64_t partial_records = 0;
};

struct Core;

class Messaging final : public progress::Pollable {
 public:
  Messaging(progress::Engine& engine, const base::System& system, const base::Log& log,
            Listener& listener, const MessagingConfig& config, int rank_count);
  ~Messaging() override;

  void add_peer(int rank, const PeerPlaces& places);  // set-up

  // The operation's fields up to its state are the caller's to set. May complete before it returns.
  // Where memory is missing the operation and its communicator fail: an exception would unwind the
  // frame in which operations that were started before are registered.
  void start(SendOperation& send) noexcept;
  void start(ReceiveOperation& receive) noexcept;
  // The same of a message that is held, which its fields match. Too short for it, or of other
  // elements: the message is held as before.
  void start(ReceiveOperation& receive, const HeldMessage& held) noexcept;

  // A message that fits into its target's ring, and behind nothing, has gone. False: nothing has
  // happened, it is for start().
  bool send_at_once(const Outgoing& message) noexcept;

  // Will the message, if it is as long as the receive, come in one piece? Where this process places
  // what comes nothing comes while it combines: segments would only cost calls of the system.
  bool comes_whole(const ReceiveOperation& receive) const noexcept;

  // Takes back a receive that no message has matched; false: it is matched, or done.
  bool cancel(ReceiveOperation& receive) noexcept;
  // The message that a receive with these fields would get.
  std::optional<Envelope> probe(const ReceiveOperation& pattern) const noexcept;

  // The same, taken out of the line: no other receive gets it.
  std::optional<HeldMessage> hold(const ReceiveOperation& pattern) noexcept;
  // In line again, where it was, or a posted receive's that awaits it. Nothing, where it is held no
  // more.
  void put_back(const HeldMessage& held) noexcept;

  // Does a receive or a send of this communicator wait? Does a send?
  bool has_operations(std::uint64_t communicator);
  bool has_sends(std::uint64_t communicator) noexcept;

  // A rank that an operation of this communicator waits for; nothing: none, or any.
  std::optional<int> awaited(std::uint64_t communicator);

  // The rank that still writes into the buffer of a receive which would otherwise have ended.
  std::optional<int> fills(std::uint64_t communicator) const noexcept;

  bool waits_for(std::uint64_t communicator, int peer);  // any_peer: a receive from any source

  // Ends every operation of the communicator, and every one that it starts later. Where a device
  // may still touch a buffer the operation ends when it does no more: the peer is asked, and if it
  // does not answer in time the buffer is closed to its device, or the connection torn down.
  // failure must live as long as the communicator.
  void fail(std::uint64_t communicator, const Error& failure);
  // After fail: does an operation of the communicator still wait for that?
  bool is_closing(std::uint64_t communicator) const noexcept;
  // After fail: ends at once what still waits.
  void end_closing(std::uint64_t communicator) noexcept;
  // Forgets the messages and the failure of a communicator that is gone. Where more may come they
  // are dropped, as long as few others have gone behind it.
  void forget(std::uint64_t communicator, bool may_come) noexcept;
  // For the begin of a collective: asks the listener about each of its messages that came before.
  void recheck_signatures(std::uint64_t communicator, std::uint32_t operation);

  // Finds connections that have failed while we only wait: posting would have told. What had
  // arrived before is taken first. A virtual call for each peer, so not at every poll.
  void look_at_links();
  // The rank is gone: nothing is sent to it or taken from it. Its operations are the caller's to
  // end.
  void give_up(int rank) noexcept;

  // How long a sleep may last before memory has to be closed.
  std::chrono::microseconds sleep_max() const noexcept;

  // Posts what still waits for credits or for a busy connection; true when nothing waits any more.
  bool flush();
  // Has everything that was posted reached the ranks that are still there?
  bool delivered(const std::function<bool(int rank)>& is_there) const;

  bool poll() override;
  // Looks at nothing but what its source sends, for so long as a peer with a core of its own takes
  // to answer: the message is seen at once. Where ranks share cores it looks briefly, and only for
  // peers whose messages came so lately: they run on another core. Meanwhile the receive stands
  // ready (rings/ready_receive.hpp). True: it is done. Only poll ends it by failure.
  bool spin_for(const ReceiveOperation& receive);

  Counters counters() const noexcept;

 private:
  std::unique_ptr<Core> core_;
};

}  // namespace qpmesh::messaging
