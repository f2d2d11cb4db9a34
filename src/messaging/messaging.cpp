// SPDX-License-Identifier: MIT
#include "messaging/messaging.hpp"

#include <algorithm>
#include <cassert>
#include <exception>

#include "base/cpu.hpp"
#include "messaging/core.hpp"
#include "messaging/mutant.hpp"
#include "messaging/rendezvous/rendezvous.hpp"

namespace qpmesh::messaging {

namespace {

// Who fills a buffer does not ring: its last store is the system's.
constexpr std::chrono::microseconds filling_sleep_max{1'000};

// Does nothing wait before it?
bool goes_next(const Peer& peer) noexcept {
  return peer.queued.empty() || mutant == Mutant::pair_order;
}

void begin(Core& core, SendOperation& send) {
  Peer& peer = core.peer(send.target);
  send.state = SendState::idle;
  send.moved_bytes = 0;
  if (!core.failed.empty()) {
    if (const Error* const failure = failure_of(core, send.communicator))
      return core.engine.complete(send, failure);
  }
  if (goes_next(peer) && try_send(core, peer, send)) return;
  enter(send, SendState::queued);
  peer.queued.push_back(send);
}

void begin(Core& core, ReceiveOperation& receive) {
  receive.state = ReceiveState::idle;
  receive.moved_bytes = 0;
  if (!core.failed.empty()) {
    if (const Error* const failure = failure_of(core, receive.communicator))
      return core.engine.complete(receive, failure);
  }
  if (Unexpected* const message = core.matching.find_unexpected(receive)) {
    take_unexpected(core, receive, *message);
  } else {
    enter(receive, ReceiveState::posted);
    core.matching.post(receive);
    if (receive.capacity_bytes > inline_bytes_max && is_collective(receive.key))
      prepost(core, receive);
  }
}

// An operation that throws is linked where the failing communicator finds it, or nowhere. Where
// there is no memory even for the failure the process ends here.
template <class Operation, class Begin>
void start_or_fail(Core& core, Operation& operation, Begin&& begin_it) noexcept {
  try {
    begin_it();
  } catch (const std::exception& error) {
    core.listener.communicator_failed(operation.communicator,
                                      {.code = ErrorCode::no_resource, .cause = error.what()});
    const Error* const failure = failure_of(core, operation.communicator);
    assert(failure != nullptr);
    if (!operation.done && !is_closing(operation.state)) core.engine.complete(operation, failure);
  }
}

// A receive that blocks stands ready while it looks at nothing but its source.
class Standing {
 public:
  Standing(const Core& core, Peer& peer, const ReceiveOperation& receive)
      : core_{core}, peer_{peer}, receive_{receive} {
    if (receive.capacity_bytes <= ready_bytes_min ||
        receive.capacity_bytes > std::min(ready_bytes_max, peer.eager.max(receive.key)) ||
        receive.any_tag || peer.remote_ready == nullptr || !core.config.measures)
      return;
    ways_ = &peer.ready_ways.of(receive.capacity_bytes);
    use_ = ways_->next(2);
    if (use_.timed) begun_ = core.system.now();
    if (use_.way == ready)
      peer.ready.begin(Ready::name_of(receive.communicator, receive.key, receive.signature),
                       receive.capacity_bytes, peer.in.consumed().lines);
  }
  ~Standing() {
    if (ways_ == nullptr) return;
    if (use_.way == ready) peer_.ready.end();
    if (use_.timed && receive_.done && receive_.failure == nullptr)
      ways_->took(use_.way, nanoseconds(core_.system.now() - begun_));
  }
  Standing(const Standing&) = delete;
  Standing& operator=(const Standing&) = delete;

 private:
  static constexpr std::size_t ready = 1;  // what is predicted comes first: the ring

  const Core& core_;
  Peer& peer_;
  const ReceiveOperation& receive_;
  FastestWay* ways_ = nullptr;
  FastestWay::Use use_;
  Deadline begun_;
};

}  // namespace

Messaging::Messaging(progress::Engine& engine, const base::System& system, const base::Log& log,
                     Listener& listener, const MessagingConfig& config, int rank_count)
    : core_{std::make_unique<Core>(engine, system, log, listener, config, rank_count)} {}

Messaging::~Messaging() = default;

void Messaging::add_peer(int rank, const PeerPlaces& places) {
  const transport::Capabilities& capabilities = places.connection->capabilities();
  EagerBytes eager{.message_max = capabilities.eager_bytes_max,
                   .step_max = capabilities.eager_step_bytes_max};
  if (core_->config.eager_bytes_max) eager = {.message_max = *core_->config.eager_bytes_max};
  auto peer = std::make_unique<Peer>(rank, places, eager);
  core_->connected.push_back(peer.get());
  if (std::ranges::find(core_->transports, places.transport) == core_->transports.end())
    core_->transports.push_back(places.transport);
  core_->peers[static_cast<std::size_t>(rank)] = std::move(peer);
}

void Messaging::start(SendOperation& send) noexcept {
  start_or_fail(*core_, send, [&] { begin(*core_, send); });
  // A receive of our own may have ended by it: who awaits that is told by this call.
  if (core_->peer(send.target).is_self) core_->engine.run_ready_soon();
}
void Messaging::start(ReceiveOperation& receive) noexcept {
  start_or_fail(*core_, receive, [&] { begin(*core_, receive); });
}
void Messaging::start(ReceiveOperation& receive, const HeldMessage& held) noexcept {
  Unexpected* const message = core_->matching.find_held(held);
  // Its sender took it back, and its communicator fails when that is told.
  if (message == nullptr) return start(receive);
  receive.state = ReceiveState::idle;
  receive.moved_bytes = 0;
  start_or_fail(*core_, receive, [&] { take_unexpected(*core_, receive, *message); });
}

std::optional<HeldMessage> Messaging::hold(const ReceiveOperation& pattern) noexcept {
  Unexpected* const message = core_->matching.find_unexpected(pattern);
  if (message == nullptr) return std::nullopt;
  return core_->matching.hold(*message);
}

void Messaging::put_back(const HeldMessage& held) noexcept {
  Matching& matching = core_->matching;
  // Receives that were posted meanwhile may wait for it. None of them has asked its sender for a
  // later message: those of collectives alone do.
  while (Unexpected* const message = matching.find_held(held)) {
    if (ReceiveOperation* const receive = matching.take_posted(message->envelope)) {
      start_or_fail(*core_, *receive, [&] { take_unexpected(*core_, *receive, *message); });
    } else {
      matching.put_back(*message);
      break;
    }
  }
  core_->engine.run_ready_soon();
}

bool Messaging::send_at_once(const Outgoing& message) noexcept {
  Peer& peer = core_->peer(message.target);
  const bool sent = core_->failed.empty() && goes_next(peer) && !peer.failed &&
                    post_eagerly(*core_, peer, message) == Ring::Sent::posted;
  if (peer.is_self) core_->engine.run_ready_soon();
  return sent;
}

bool Messaging::spin_for(const ReceiveOperation& receive) {
  if (receive.source == any_peer) return false;
  Peer& peer = core_->peer(receive.source);
  if (!peer.capabilities.loads_peer_memory) return false;  // its records come through a device
  const bool own_core = core_->config.spins_max > 0;
  const int spins = own_core ? core_->config.spins_max : peer.patience.spins();
  const Standing standing{*core_, peer, receive};
  for (int spin = 0; spin < spins && !receive.done; ++spin) {
    if (peer.in.has_news()) poll_peer(*core_, peer);
    else base::cpu_pause();
  }
  if (!own_core && spins > 0) peer.patience.note(receive.done);
  return receive.done;
}

bool Messaging::poll() {
  for (transport::Transport* const transport : core_->transports) transport->progress();
  bool worked = false;
  for (Peer* const peer : core_->connected) {
    if (peer->in.has_news() || peer->has_more_to_do()) worked |= poll_peer(*core_, *peer);
  }
  if (core_->fillings > 0) look_at_fillings(*core_, false);
  if (core_->links_failed) report_failed_links(*core_);
  return worked;
}

bool Messaging::comes_whole(const ReceiveOperation& receive) const noexcept {
  const Peer& peer = core_->peer(receive.source);
  return peer.capabilities.receiver_places && receive.capacity_bytes > peer.eager.max(receive.key);
}

bool Messaging::cancel(ReceiveOperation& receive) noexcept {
  if (receive.done || receive.state != ReceiveState::posted) return false;
  core_->matching.unpost(receive);
  enter(receive, ReceiveState::idle);
  return true;
}

std::optional<Envelope> Messaging::probe(const ReceiveOperation& pattern) const noexcept {
  const Unexpected* const message = core_->matching.find_unexpected(pattern);
  if (message == nullptr) return std::nullopt;
  return message->envelope;
}

bool Messaging::delivered(const std::function<bool(int rank)>& is_there) const {
  bool all = true;
  for (Peer* const peer : core_->connected) {
    if (!peer->failed && is_there(peer->rank) && !peer->connection.delivered()) all = false;
  }
  return all;
}

bool Messaging::flush() {
  bool all = true;
  for (Peer* const peer : core_->connected) {
    if (!peer->failed && !peer->idle_out()) {
      advance(*core_, *peer);
      all &= peer->failed || peer->idle_out();
    }
  }
  return all;
}

Counters Messaging::counters() const noexcept {
  Counters counters = core_->counters;
  for (const Peer* const peer : core_->connected)
    counters.partial_records += peer->in.partial_records();
  return counters;
}

bool Messaging::is_closing(std::uint64_t communicator) const noexcept {
  if (core_->closing == 0) return false;
  bool found = false;
  const auto look = [&](const auto& operation) {
    found |= operation.communicator == communicator && messaging::is_closing(operation.state);
  };
  core_->receives.for_each(look);
  core_->sends.for_each(look);
  return found;
}

std::chrono::microseconds Messaging::sleep_max() const noexcept {
  const auto longest = core_->fillings > 0 ? filling_sleep_max : std::chrono::microseconds::max();
  if (core_->closing == 0) return longest;
  const auto left =
      std::chrono::ceil<std::chrono::microseconds>(core_->closing_until - core_->system.now());
  return std::clamp(left, std::chrono::microseconds{0}, longest);
}

}  // namespace qpmesh::messaging
