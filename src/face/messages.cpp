// SPDX-License-Identifier: MIT
// Messages between two ranks: sent, received, looked at, matched.
#include <memory>

#include "calls/argument_checks.hpp"
#include "calls/pending_operation.hpp"
#include "face/run.hpp"
#include "messaging/elements.hpp"
#include "qpmesh/communicator.hpp"

namespace qpmesh::calls {

// Held by messaging while it has a number.
struct MatchedMessage {
  std::shared_ptr<context::CommunicatorState> state;  // nullptr: of no_rank
  messaging::HeldMessage held{};
  Status status{};
  bool received = false;
};

}  // namespace qpmesh::calls

namespace qpmesh {

using namespace calls;
using namespace context;
using namespace detail;

namespace {

// ---- fill in a request's operations, and start them ----

// Inlined: what it returns then needs no memory.
[[gnu::always_inline]] inline messaging::Outgoing outgoing(CommunicatorState& state,
                                                           std::string_view operation,
                                                           const ConstElements& data,
                                                           int destination, int tag,
                                                           const CallOptions& options) {
  const std::size_t bytes = checked_bytes(data, operation);
  check_peer(destination, state.size(), false, operation, "destination");
  check_tag(tag, false, operation);
  state.context().operations().add(operation, bytes, destination, tag);
  return {
      .communicator = state.id(),
      .key = messaging::tag_key(tag),
      .data = static_cast<const std::byte*>(data.data),
      .bytes = bytes,
      .target = state.context_rank(destination),
      .signature = messaging::element_signature(data.type, data.element_bytes, data.element_count),
      .synchronous = options.synchronous};
}

void start_send(PendingOperation& request, const messaging::Outgoing& message) {
  request.has_send = true;
  // Not construct_at, which clears it first.
  auto& send = *::new (&request.send) messaging::SendOperation;
  static_cast<messaging::Outgoing&>(send) = message;
  request.communicator->context().messaging().start(send);
}

void set_pattern(messaging::ReceiveOperation& receive, const CommunicatorState& state, int source,
                 int tag) {
  receive.communicator = state.id();
  receive.any_tag = tag == any_tag;
  receive.key = receive.any_tag ? 0 : messaging::tag_key(tag);
  receive.source = source == any_source ? messaging::any_peer : state.context_rank(source);
}

[[gnu::always_inline]] inline void set_receive(PendingOperation& request, const Elements& data,
                                               int source, int tag, const CallOptions& options) {
  CommunicatorState& state = *request.communicator;
  const std::size_t bytes = checked_bytes(data, request.operation);
  check_peer(source, state.size(), true, request.operation, "source");
  check_tag(tag, true, request.operation);
  state.context().operations().add(request.operation, bytes, source, tag);
  request.has_receive = true;
  ::new (&request.receive) messaging::ReceiveOperation;
  set_pattern(request.receive, state, source, tag);
  request.receive.data = static_cast<std::byte*>(data.data);
  request.receive.capacity_bytes = bytes;
  request.receive.takes_head = options.head;
  request.receive.signature =
      messaging::element_signature(data.type, data.element_bytes, data.element_count);
}

// At most one of the partners is not there.
void start_both(PendingOperation& request, const ConstElements& sent, int to,
                const Elements& received, int from, Tags tags, const CallOptions& options) {
  check_disjoint(sent, received, request.operation);
  CommunicatorState& state = *request.communicator;
  std::optional<messaging::Outgoing> message;
  if (to != no_rank) message = outgoing(state, request.operation, sent, to, tags.sent, options);
  if (from != no_rank) {
    set_receive(request, received, from, tags.received, options);
    state.context().messaging().start(request.receive);
  }
  if (message) start_send(request, *message);
}

// With nobody at the other end the arguments are checked as ever, and nothing moves.
void check_alone(const ConstElements& data, int tag, bool any_tag_allowed,
                 std::string_view operation) {
  checked_bytes(data, operation);
  check_tag(tag, any_tag_allowed, operation);
}

// What a probe looks for.
messaging::ReceiveOperation pattern_of(const CommunicatorState& state, int source, int tag,
                                       std::string_view operation) {
  check_peer(source, state.size(), true, operation, "source");
  check_tag(tag, true, operation);
  messaging::ReceiveOperation pattern;
  set_pattern(pattern, state, source, tag);
  return pattern;
}

Status status_of(const CommunicatorState& state, const messaging::Envelope& envelope) noexcept {
  return {.source = state.rank_of(envelope.source),
          .tag = static_cast<int>(envelope.key),
          .bytes = envelope.bytes};
}

std::optional<Status> find_message(CommunicatorState& state,
                                   const messaging::ReceiveOperation& pattern) {
  const auto envelope = state.context().messaging().probe(pattern);
  if (!envelope) return std::nullopt;
  return status_of(state, *envelope);
}

std::size_t whole_elements(const Status& status, std::size_t element_bytes) {
  if (status.bytes % element_bytes != 0) {
    base::throw_error({ErrorCode::mismatch, status.source}, "receive",
                      "receive it as bytes: receive<std::byte>",
                      "a message of {} bytes holds no whole number of elements of {} bytes",
                      status.bytes, element_bytes);
  }
  return status.bytes / element_bytes;
}

}  // namespace

void Communicator::send_elements(const ConstElements& data, int destination, int tag,
                                 const CallOptions& options) {
  const CallScope scope{*held(state_, "send"), "send", options};
  if (destination == no_rank) [[unlikely]]
    return check_alone(data, tag, false, "send");
  const messaging::Outgoing message = outgoing(*state_, "send", data, destination, tag, options);
  if (state_->context().messaging().send_at_once(message)) return;  // the usual end
  PendingOperation request{*state_, "send", options};
  start_send(request, message);
  finish_waiting(request);
}

Status Communicator::receive_elements(const Elements& data, int source, int tag,
                                      const CallOptions& options) {
  const CallScope scope{*held(state_, "receive"), "receive", options};
  if (source == no_rank) [[unlikely]]
    return check_alone(data, tag, true, "receive"), Status{};
  PendingOperation request{*state_, "receive", options};
  set_receive(request, data, source, tag, options);
  const messaging::ReceiveOperation& receive = request.receive;
  state_->context().messaging().start(request.receive);
  const bool done = receive.done || spin_for_receive(request) ||
                    wait_until(request, [&] { return receive.done; });
  if (!done) return finish_late(request);
  if (receive.failure != nullptr || receive.truncated || receive.mistyped) return settle(request);
  return received(request);
}

Status Communicator::sendrecv_elements(const ConstElements& sent, int to, const Elements& received,
                                       int from, Tags tags, const CallOptions& options) {
  if (to == no_rank && from == no_rank) {
    const CallScope scope{*held(state_, "sendrecv"), "sendrecv", options};
    return check_alone(sent, tags.sent, false, "sendrecv"), Status{};
  }
  return run(*held(state_, "sendrecv"), "sendrecv", options, [&](PendingOperation& request) {
    start_both(request, sent, to, received, from, tags, options);
  });
}

Request Communicator::send_elements_async(const ConstElements& data, int destination, int tag,
                                          const CallOptions& options) {
  const CallScope scope{*held(state_, "send_async"), "send_async", options};
  if (destination == no_rank) [[unlikely]]
    return check_alone(data, tag, false, "send_async"), Access::ended_request();
  const messaging::Outgoing message =
      outgoing(*state_, "send_async", data, destination, tag, options);
  if (state_->context().messaging().send_at_once(message)) return Access::ended_request();
  return run_async(state_, "send_async", options, data.data, nullptr,
                   [&](PendingOperation& request) { start_send(request, message); });
}

Request Communicator::receive_elements_async(const Elements& data, int source, int tag,
                                             const CallOptions& options) {
  const CallScope scope{*held(state_, "receive_async"), "receive_async", options};
  if (source == no_rank) [[unlikely]]
    return check_alone(data, tag, true, "receive_async"), Access::ended_request();
  return run_async(state_, "receive_async", options, nullptr, data.data,
                   [&](PendingOperation& request) {
                     set_receive(request, data, source, tag, options);
                     state_->context().messaging().start(request.receive);
                   });
}

Request Communicator::sendrecv_elements_async(const ConstElements& sent, int to,
                                              const Elements& received, int from, Tags tags,
                                              const CallOptions& options) {
  const CallScope scope{*held(state_, "sendrecv_async"), "sendrecv_async", options};
  if (to == no_rank && from == no_rank)
    return check_alone(sent, tags.sent, false, "sendrecv_async"), Access::ended_request();
  return run_async(state_, "sendrecv_async", options, sent.data, received.data,
                   [&](PendingOperation& request) {
                     start_both(request, sent, to, received, from, tags, options);
                   });
}

Status Communicator::probe(int source, int tag, const CallOptions& options) {
  const CallScope scope{*held(state_, "probe"), "probe", options};
  if (source == no_rank) return {};
  const messaging::ReceiveOperation pattern = pattern_of(*state_, source, tag, "probe");
  state_->wait_for_message(pattern, "probe", state_->timeout_ms_of(options));
  state_->require_usable("probe");
  return *find_message(*state_, pattern);
}

std::optional<Status> Communicator::try_probe(int source, int tag) {
  const CallScope scope{*held(state_, "try_probe"), "try_probe", {}};
  if (source == no_rank) return Status{};
  const messaging::ReceiveOperation pattern = pattern_of(*state_, source, tag, "try_probe");
  if (const auto found = find_message(*state_, pattern)) return found;
  state_->context().waiter().look();
  state_->require_usable("try_probe");
  return find_message(*state_, pattern);
}

Message::Message(std::unique_ptr<MatchedMessage>&& message) noexcept
    : message_{std::move(message)} {}
Message::Message(Message&&) noexcept = default;
Message& Message::operator=(Message&& other) noexcept {
  if (this == &other) return *this;
  Message gone{std::move(message_)};  // what was not received goes back
  message_ = std::move(other.message_);
  return *this;
}
Message::~Message() {
  if (message_ == nullptr || message_->state == nullptr || message_->received) return;
  Context& context = message_->state->context();
  if (context.is_inherited()) return;
  try {
    const CallScope scope{context, "match"};
    context.messaging().put_back(message_->held);
  } catch (...) {  // another thread is inside: it stays held
    context.log().warning("a message from rank {} with tag {} that was matched was not received",
                          message_->status.source, message_->status.tag);
  }
}

const Status& Message::status() const noexcept {
  static const Status none{};
  return message_ == nullptr ? none : message_->status;
}

namespace {

void require_unreceived(const MatchedMessage& message, std::string_view operation) {
  if (message.received)
    bad_argument(operation, "a message is received once", "the message has been received");
}

Message take_message(const std::shared_ptr<CommunicatorState>& state,
                     const messaging::ReceiveOperation& pattern) {
  const messaging::HeldMessage held = *state->context().messaging().hold(pattern);
  return Access::message(std::make_unique<MatchedMessage>(
      MatchedMessage{state, held, status_of(*state, held.envelope)}));
}

}  // namespace

std::size_t Message::count_of(std::size_t element_bytes) const {
  return whole_elements(held(message_, "receive")->status, element_bytes);
}

Status Message::receive_elements(const Elements& data, const CallOptions& options) {
  MatchedMessage& message = *held(message_, "receive");
  require_unreceived(message, "receive");
  if (message.state == nullptr) {
    message.received = true;
    return message.status;
  }
  const auto start = [&](PendingOperation& request) {
    set_receive(request, data, message.status.source, message.status.tag, options);
    message.received = true;
    request.communicator->context().messaging().start(request.receive, message.held);
  };
  try {
    return run(*message.state, "receive", options, start);
  } catch (const Error& error) {
    const bool is_held = error.code() == ErrorCode::truncated ||
                         error.code() == ErrorCode::mismatch ||
                         error.code() == ErrorCode::bad_argument;
    message.received = !is_held;
    throw;
  }
}

Request Message::receive_elements_async(const Elements& data, const CallOptions& options) {
  MatchedMessage& message = *held(message_, "receive_async");
  require_unreceived(message, "receive_async");
  if (message.state == nullptr) {
    message.received = true;
    return Access::ended_request();
  }
  // What does not fit is told at once, so that it stays ours.
  const messaging::Envelope& envelope = message.held.envelope;
  const std::uint32_t signature =
      messaging::element_signature(data.type, data.element_bytes, data.element_count);
  if ((checked_bytes(data, "receive_async") < envelope.bytes && !options.head) ||
      !messaging::elements_agree(envelope.signature, signature)) {
    receive_elements(data, options);
    return Access::ended_request();
  }
  const CallScope scope{*message.state, "receive_async", options};
  return run_async(
      message.state, "receive_async", options, nullptr, data.data, [&](PendingOperation& request) {
        set_receive(request, data, message.status.source, message.status.tag, options);
        message.received = true;
        request.communicator->context().messaging().start(request.receive, message.held);
      });
}

Message Communicator::match(int source, int tag, const CallOptions& options) {
  const CallScope scope{*held(state_, "match"), "match", options};
  if (source == no_rank) return Access::message(std::make_unique<MatchedMessage>());
  const messaging::ReceiveOperation pattern = pattern_of(*state_, source, tag, "match");
  state_->wait_for_message(pattern, "match", state_->timeout_ms_of(options));
  state_->require_usable("match");
  return take_message(state_, pattern);
}

std::optional<Message> Communicator::try_match(int source, int tag) {
  const CallScope scope{*held(state_, "try_match"), "try_match", {}};
  if (source == no_rank) return Access::message(std::make_unique<MatchedMessage>());
  const messaging::ReceiveOperation pattern = pattern_of(*state_, source, tag, "try_match");
  if (!find_message(*state_, pattern)) {
    state_->context().waiter().look();
    state_->require_usable("try_match");
    if (!find_message(*state_, pattern)) return std::nullopt;
  }
  return take_message(state_, pattern);
}

}  // namespace qpmesh
