// SPDX-License-Identifier: MIT
// How queue pairs become ready to send. There are two ways: plain exchange, where the two ends know
// each other's addresses and take the same steps alone, and the RDMA communication manager, where
// one end calls and the other one answers.
//
// Steps, the same for both, each taken by all ranks before the next one: listen (and port) → the
// bootstrap carries the addresses → begin, for each peer → finish.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/interrupt.hpp"
#include "base/log.hpp"
#include "base/system.hpp"
#include "qpmesh/deadline.hpp"
#include "transport/verbs/attributes.hpp"
#include "transport/verbs/diagnosis/statuses.hpp"

namespace qpmesh::transport::verbs {

// A link on its way: what its errors name.
struct LinkTo {
  int peer = -1;
  diagnosis::LinkDescription link;
};

class Connector {
 public:
  virtual ~Connector() = default;
  // Bit i: by the i-th of these endpoints of ours no pair can be connected. At most 64; those that
  // are known from an earlier call cost nothing. Throws Error{no_resource} where none is left.
  virtual std::uint64_t listen(std::span<const selection::Endpoint> locals) = 0;
  // Where peers find this end, by each of the other endpoints. 0: there is no need to.
  virtual std::uint16_t port() const noexcept = 0;
  // queue_pair: in INIT; it outlives finish. peer_port: the peer's port(). Does what this end can
  // do alone, so that failures here keep no peer waiting. Throws Error{link_failed} or {corrupt}.
  virtual void begin(ibv_qp& queue_pair, LinkTo to, std::uint16_t peer_port) = 0;
  // Returns when every queue pair is in RTS. Throws Error{link_failed}, {timeout} at the deadline,
  // or what check throws.
  virtual void finish(Deadline deadline, const base::StartCheck& check) = 0;
};

std::unique_ptr<Connector> make_exchange_connector(const base::System& system);

// By whom connections are asked for: a request of anybody else is rejected.
struct JobMember {
  std::uint64_t job = 0;  // the same on all ranks, and on nobody else
  int rank = -1;
  int traffic_class = -1;  // the caller asks the manager for it; -1: the manager's own
};
// Throws Error{no_resource} where this process cannot use the communication manager. system
// outlives it.
//
// The lower rank of a pair calls. Listening ends with finish. What the manager knows of a
// connection it keeps as long as this object lives, which is longer than the queue pairs: a second
// connection by the same queue pair numbers would be taken for a stale one, and iWARP ends the
// connection with it. Nothing is disconnected: queue pairs are severed by who owns them, and that a
// peer has left is the control channel's to tell, so the manager's later events are not read.
std::unique_ptr<Connector> make_cm_connector(const base::System& system, const base::Log& log,
                                             JobMember self);

// Throws Error{link_failed}.
void to_state(const base::System& system, ibv_qp& queue_pair, const Attributes& attributes,
              std::string_view step, const LinkTo& to);
[[noreturn]] void fail_connecting(int peer, const diagnosis::Explanation& why, int error = 0);

}  // namespace qpmesh::transport::verbs
