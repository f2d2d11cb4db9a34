// The public face over the floors below: arguments are checked, the operation
// is started, and waited for or handed out.
#include "qpmesh/communicator.hpp"

#include <memory>

#include "calls/argument_checks.hpp"
#include "calls/pending_operation.hpp"
#include "collectives/registry.hpp"
#include "messaging/elements.hpp"
#include "startup/init.hpp"

namespace qpmesh {

using namespace calls;
using namespace context;
using namespace detail;

namespace {

// ---- point to point: fill in a request's operations, and start them ----

// Inlined: what it returns then needs no memory.
[[gnu::always_inline]] inline messaging::Outgoing outgoing(CommunicatorState& state,
                                                           std::string_view operation,
                                                           const ConstElements& data,
                                                           int destination, int tag) {
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
      .signature = messaging::element_signature(data.type, data.element_bytes, data.element_count)};
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
                                               int source, int tag) {
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
  request.receive.signature =
      messaging::element_signature(data.type, data.element_bytes, data.element_count);
}

// At most one of the partners is not there.
void start_both(PendingOperation& request, const ConstElements& sent, int to,
                const Elements& received, int from, int tag) {
  check_disjoint(sent, received, request.operation);
  CommunicatorState& state = *request.communicator;
  std::optional<messaging::Outgoing> message;
  if (to != no_rank) message = outgoing(state, request.operation, sent, to, tag);
  if (from != no_rank) {
    set_receive(request, received, from, tag);
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

std::optional<Status> find_message(CommunicatorState& state,
                                   const messaging::ReceiveOperation& pattern) {
  const auto envelope = state.context().messaging().probe(pattern);
  if (!envelope) return std::nullopt;
  return Status{.source = state.rank_of(envelope->source),
                .tag = static_cast<int>(envelope->key),
                .bytes = envelope->bytes};
}

// ---- collectives ----

std::string_view async_name_of(Collective collective) noexcept {
  constexpr std::array<std::string_view, collective_count> names{
      "barrier_async",        "broadcast_async", "reduce_async", "allgather_async",
      "reduce_scatter_async", "allreduce_async", "gather_async", "scatter_async",
      "alltoall_async",       "scan_async",      "exscan_async"};
  return names[static_cast<std::size_t>(collective)];
}

// ---- blocking and not: the same preparation, on the stack or in the pool ----

template <class Prepare>
Status run(CommunicatorState& state, std::string_view operation, const CallOptions& options,
           Prepare&& prepare) {
  const CallScope scope{state, operation, options};
  PendingOperation request{state, operation, options};
  prepare(request);
  return finish_waiting(request);
}

// Within the scope of its call.
template <class Prepare>
Request run_async(const std::shared_ptr<CommunicatorState>& state, std::string_view operation,
                  const CallOptions& options, const void* read, const void* written,
                  Prepare&& prepare) {
  Context& context = state->context();
  void* const memory = context.engine().pool().allocate(sizeof(RequestState));
  auto* const request = ::new (memory) RequestState{state, operation, options};
  try {
    const Allocations& buffers = context.allocations();
    if (buffers.may_hold(read)) [[unlikely]]
      request->keep().buffers[0] = buffers.at(read);
    if (buffers.may_hold(written)) [[unlikely]]
      request->keep().buffers[1] = buffers.at(written);
    prepare(*request);
  } catch (...) {  // nothing was started: arguments are checked before
    RequestState::destroy(request);
    throw;
  }
  return Request{request};
}

}  // namespace

Communicator::Communicator(std::shared_ptr<CommunicatorState> state) noexcept
    : state_{std::move(state)} {}
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&&) noexcept = default;
Communicator::~Communicator() = default;

int Communicator::rank() const noexcept { return state_->rank(); }
int Communicator::size() const noexcept { return state_->size(); }

void Communicator::send_elements(const ConstElements& data, int destination, int tag,
                                 const CallOptions& options) {
  const CallScope scope{*state_, "send", options};
  if (destination == no_rank) [[unlikely]]
    return check_alone(data, tag, false, "send");
  const messaging::Outgoing message = outgoing(*state_, "send", data, destination, tag);
  if (state_->context().messaging().send_at_once(message)) return;  // the usual end
  PendingOperation request{*state_, "send", options};
  start_send(request, message);
  finish_waiting(request);
}

Status Communicator::receive_elements(const Elements& data, int source, int tag,
                                      const CallOptions& options) {
  const CallScope scope{*state_, "receive", options};
  if (source == no_rank) [[unlikely]]
    return check_alone(data, tag, true, "receive"), Status{};
  PendingOperation request{*state_, "receive", options};
  set_receive(request, data, source, tag);
  const messaging::ReceiveOperation& receive = request.receive;
  messaging::Messaging& messaging = state_->context().messaging();
  messaging.start(request.receive);
  const auto is_done = [&] { return receive.done; };
  const bool done = receive.done ||
                    wait_guarded(
                        request, [&] { return messaging.spin_for(receive); }, is_done) ||
                    wait_until(request, is_done);
  if (!done) return finish_late(request);
  if (receive.failure != nullptr || receive.truncated || receive.mistyped) return settle(request);
  return received(request);
}

Status Communicator::sendrecv_elements(const ConstElements& sent, int to, const Elements& received,
                                       int from, int tag, const CallOptions& options) {
  if (to == no_rank && from == no_rank) {
    const CallScope scope{*state_, "sendrecv", options};
    return check_alone(sent, tag, false, "sendrecv"), Status{};
  }
  return run(*state_, "sendrecv", options, [&](PendingOperation& request) {
    start_both(request, sent, to, received, from, tag);
  });
}

Request Communicator::send_elements_async(const ConstElements& data, int destination, int tag,
                                          const CallOptions& options) {
  const CallScope scope{*state_, "send_async", options};
  if (destination == no_rank) [[unlikely]]
    return check_alone(data, tag, false, "send_async"), Request::ended();
  const messaging::Outgoing message = outgoing(*state_, "send_async", data, destination, tag);
  if (state_->context().messaging().send_at_once(message)) return Request::ended();
  return run_async(state_, "send_async", options, data.data, nullptr,
                   [&](PendingOperation& request) { start_send(request, message); });
}

Request Communicator::receive_elements_async(const Elements& data, int source, int tag,
                                             const CallOptions& options) {
  const CallScope scope{*state_, "receive_async", options};
  if (source == no_rank) [[unlikely]]
    return check_alone(data, tag, true, "receive_async"), Request::ended();
  return run_async(state_, "receive_async", options, nullptr, data.data,
                   [&](PendingOperation& request) {
                     set_receive(request, data, source, tag);
                     state_->context().messaging().start(request.receive);
                   });
}

Request Communicator::sendrecv_elements_async(const ConstElements& sent, int to,
                                              const Elements& received, int from, int tag,
                                              const CallOptions& options) {
  const CallScope scope{*state_, "sendrecv_async", options};
  if (to == no_rank && from == no_rank)
    return check_alone(sent, tag, false, "sendrecv_async"), Request::ended();
  return run_async(
      state_, "sendrecv_async", options, sent.data, received.data,
      [&](PendingOperation& request) { start_both(request, sent, to, received, from, tag); });
}

std::pair<Status, std::size_t> Communicator::await_elements(std::size_t element_bytes, int source,
                                                            int tag, const CallOptions& options) {
  const Status status = probe(source, tag, options);
  if (status.bytes % element_bytes != 0) {
    base::throw_error({ErrorCode::mismatch, status.source}, "receive",
                      "receive it as bytes: receive<std::byte>",
                      "a message of {} bytes holds no whole number of elements of {} bytes",
                      status.bytes, element_bytes);
  }
  return {status, status.bytes / element_bytes};
}

Status Communicator::probe(int source, int tag, const CallOptions& options) {
  const CallScope scope{*state_, "probe", options};
  if (source == no_rank) return {};
  const messaging::ReceiveOperation pattern = pattern_of(*state_, source, tag, "probe");
  state_->wait_for_message(pattern, "probe", state_->timeout_ms_of(options));
  state_->require_usable("probe");
  return *find_message(*state_, pattern);
}

std::optional<Status> Communicator::try_probe(int source, int tag) {
  const CallScope scope{*state_, "try_probe", {}};
  if (source == no_rank) return Status{};
  const messaging::ReceiveOperation pattern = pattern_of(*state_, source, tag, "try_probe");
  if (const auto found = find_message(*state_, pattern)) return found;
  state_->context().waiter().look();
  state_->require_usable("try_probe");
  return find_message(*state_, pattern);
}

void Communicator::run_collective(const detail::AnyCollective& what, const CallOptions& options) {
  calls::run_collective(*state_, what, options);
}

Request Communicator::start_collective(const detail::AnyCollective& what,
                                       const CallOptions& options) {
  const CallScope scope{*state_, async_name_of(what.collective), options};
  return run_async(state_, async_name_of(what.collective), options, what.in.data, what.out.data,
                   [&](RequestState& request) {
                     detail::AnyCollective kept = what;
                     if (what.reduction.copy != nullptr) {
                       auto& function = request.keep().function;
                       function = what.reduction.copy(what.reduction.context);
                       kept.reduction.context = function.get();
                     }
                     calls::start_collective(request, kept, options.algorithm);
                   });
}

void Communicator::progress() {
  const CallScope scope{state_->context(), "progress"};
  state_->context().waiter().look();
}

void Communicator::finish(const CallOptions& options) {
  run(*state_, "finish", options, [&](PendingOperation& request) {
    require_no_requests(*state_, "finish");
    const collectives::Group group = state_->begin({.operation = "finish"});
    const collectives::Algorithm& algorithm = collectives::barrier_one_shot.applies(state_->shape())
                                                  ? collectives::barrier_one_shot
                                                  : collectives::barrier_dissemination;
    calls::start_algorithm(request, group, algorithm, collectives::no_arguments);
  });
  state_->finish();
}

void Communicator::abort(std::string_view reason) noexcept { state_->context().abort(reason); }

std::vector<Candidate> Communicator::explain(Collective collective, std::size_t bytes) const {
  collectives::CallShape shape = state_->shape();
  shape.bytes = bytes;
  const collectives::Selector& selector = state_->selector();
  const collectives::Algorithm& chosen = selector.expected(shape, collective, "explain");
  std::vector<Candidate> candidates;
  for (const collectives::Algorithm* const row : collectives::algorithms(collective)) {
    const bool applies = row->applies(shape);
    const collectives::Figure measured = selector.figure(shape, *row);
    candidates.push_back({.algorithm = row->name,
                          .applies = applies,
                          .chosen = row == &chosen,
                          .predicted_us = applies ? selector.predicted_s(shape, *row) * 1e6 : 0,
                          .measured_us = measured.us,
                          .samples = measured.samples});
  }
  return candidates;
}

Communicator init(Bootstrap& bootstrap, const Options& options) {
  return Communicator{startup::init_over(bootstrap, options)};
}

Communicator init(const Options& options) {
  return Communicator{startup::init_from_environment(options)};
}

Communicator init() { return init(Options::from_environment()); }

}  // namespace qpmesh
