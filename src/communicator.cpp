// The public face over the floors below: arguments are checked, the operation
// is started, and waited for or handed out.
#include "qpmesh/communicator.hpp"

#include <fmt/format.h>

#include <memory>

#include "arguments.hpp"
#include "collectives/barrier/barrier.hpp"
#include "collectives/registry.hpp"
#include "request_state.hpp"

namespace qpmesh {

using detail::bad_reduction;
using detail::check_call;
using detail::check_disjoint;
using detail::check_pair;
using detail::check_peer;
using detail::check_tag;
using detail::checked_bytes;
using detail::CollectiveCall;
using detail::CommunicatorState;
using detail::ConstElements;
using detail::Context;
using detail::Elements;
using detail::RequestState;
using detail::Waiting;

namespace {

// ---- point to point: fill in a request's operations, and start them ----

void prepare_send(Waiting& request, const ConstElements& data, int destination, int tag) {
  CommunicatorState& state = *request.communicator;
  const std::size_t bytes = checked_bytes(data, request.operation);
  check_peer(destination, state.size(), false, request.operation, "destination");
  check_tag(tag, false, request.operation);
  state.context().operations().add(request.operation, state.id(), bytes, destination, tag);
  request.has_send = true;
  messaging::SendOperation& send = *std::construct_at(&request.send);
  send.communicator = state.id();
  send.key = messaging::tag_key(tag);
  send.data = static_cast<const std::byte*>(data.data);
  send.bytes = bytes;
  send.target = state.context_rank(destination);
}

void set_pattern(messaging::ReceiveOperation& receive, const CommunicatorState& state, int source, int tag) {
  receive.communicator = state.id();
  receive.any_tag = tag == any_tag;
  receive.key = receive.any_tag ? 0 : messaging::tag_key(tag);
  receive.source = source == any_source ? messaging::any_peer : state.context_rank(source);
}

void prepare_receive(Waiting& request, const Elements& data, int source, int tag) {
  CommunicatorState& state = *request.communicator;
  const std::size_t bytes = checked_bytes(data, request.operation);
  check_peer(source, state.size(), true, request.operation, "source");
  check_tag(tag, true, request.operation);
  state.context().operations().add(request.operation, state.id(), bytes, source, tag);
  request.has_receive = true;
  std::construct_at(&request.receive);
  set_pattern(request.receive, state, source, tag);
  request.receive.data = static_cast<std::byte*>(data.data);
  request.receive.capacity_bytes = bytes;
}

void start(Waiting& request) {
  messaging::Messaging& messaging = request.communicator->context().messaging();
  if (request.has_receive) messaging.start(request.receive);
  if (request.has_send) messaging.start(request.send);
}

// ---- collectives ----

collectives::Task allreduce_average(collectives::Group group, collectives::AllreduceArguments arguments,
                                    const collectives::AllreduceAlgorithm* algorithm,
                                    collectives::DivideKernel divide) {
  co_await algorithm->run(group, arguments);
  divide(arguments.out, arguments.element_count, group.size());
}

void start_allreduce(Waiting& request, const ConstElements& in, const Elements& out, Reduction reduction) {
  CommunicatorState& state = *request.communicator;
  check_pair(in, out, request.operation);
  const collectives::ReduceKernel kernel = collectives::reduce_kernel(reduction.kind, in.type);
  if (kernel == nullptr) bad_reduction(reduction, request.operation);
  const CollectiveCall call{.operation = "allreduce",
                            .element_count = in.element_count,
                            .element_bytes = static_cast<std::uint32_t>(in.element_bytes),
                            .type = in.type,
                            .reduction = reduction.kind};
  const auto& algorithm = collectives::select_allreduce(state.context().options().allreduce, state.size(),
                                                        in.element_count * in.element_bytes);
  const collectives::AllreduceArguments arguments{.in = static_cast<const std::byte*>(in.data),
                                                  .out = static_cast<std::byte*>(out.data),
                                                  .element_count = in.element_count,
                                                  .element_bytes = in.element_bytes,
                                                  .kernel = kernel};
  const collectives::Group group = state.begin(call);
  request.has_task = true;
  if (reduction.kind == ReductionKind::average) {
    state.context().engine().start(request.task, [&] {
      return allreduce_average(group, arguments, &algorithm, collectives::divide_kernel(in.type));
    });
  } else {
    state.context().engine().start(request.task, [&] { return algorithm.run(group, arguments); });
  }
}

void start_barrier(Waiting& request) {
  CommunicatorState& state = *request.communicator;
  const collectives::Group group = state.begin({.operation = "barrier"});
  request.has_task = true;
  state.context().engine().start(request.task, [&] { return collectives::barrier_dissemination(group); });
}

// ---- blocking and not: the same preparation, on the stack or in the pool ----

template <class Prepare>
Status run(const std::shared_ptr<CommunicatorState>& state, std::string_view operation, Call call,
           Prepare&& prepare) {
  const Context::Entry entry{state->context(), operation};
  state->require_usable(operation);
  check_call(call, operation);
  Waiting request{*state, operation, call};
  prepare(request);
  return detail::finish_waiting(request);
}

template <class Prepare>
Request run_async(const std::shared_ptr<CommunicatorState>& state, std::string_view operation, Call call,
                  const void* read, const void* written, Prepare&& prepare) {
  Context& context = state->context();
  const Context::Entry entry{context, operation};
  state->require_usable(operation);
  check_call(call, operation);
  void* const memory = context.engine().pool().allocate(sizeof(RequestState));
  auto* const request = ::new (memory) RequestState{state, operation, call};
  try {
    request->held = {context.allocation_at(read), context.allocation_at(written)};
    prepare(*request);
  } catch (...) {  // nothing was started: arguments are checked before
    request->~RequestState();
    progress::FramePool::free(memory);
    throw;
  }
  return Request{request};
}

}  // namespace

Communicator::Communicator(std::shared_ptr<CommunicatorState> state) noexcept : state_{std::move(state)} {}
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&&) noexcept = default;
Communicator::~Communicator() = default;

int Communicator::rank() const noexcept { return state_->rank(); }
int Communicator::size() const noexcept { return state_->size(); }

void Communicator::send_elements(ConstElements data, int destination, int tag, Call call) {
  const Context::Entry entry{state_->context(), "send"};
  state_->require_usable("send");
  check_call(call, "send");
  Waiting request{*state_, "send", call};
  prepare_send(request, data, destination, tag);
  state_->context().messaging().start(request.send);
  if (request.send.done && request.send.failure == nullptr)
    return;  // eager and a credit at hand: the usual end
  detail::finish_waiting(request);
}

Status Communicator::receive_elements(Elements data, int source, int tag, Call call) {
  const Context::Entry entry{state_->context(), "receive"};
  state_->require_usable("receive");
  check_call(call, "receive");
  Waiting request{*state_, "receive", call};
  prepare_receive(request, data, source, tag);
  const messaging::ReceiveOperation& receive = request.receive;
  state_->context().messaging().start(request.receive);
  const bool done = receive.done || detail::wait_until(request, [&] { return receive.done; });
  if (!done) return detail::finish_late(request);
  if (receive.failure != nullptr || receive.truncated) return detail::settle(request);
  return detail::received(request);
}

Status Communicator::exchange_elements(ConstElements out, int to, Elements in, int from, int tag, Call call) {
  return run(state_, "exchange", call, [&](Waiting& request) {
    check_disjoint(out, in, "exchange");
    prepare_send(request, out, to, tag);
    prepare_receive(request, in, from, tag);
    start(request);
  });
}

Request Communicator::send_elements_async(ConstElements data, int destination, int tag, Call call) {
  return run_async(state_, "send_async", call, data.data, nullptr, [&](Waiting& request) {
    prepare_send(request, data, destination, tag);
    start(request);
  });
}

Request Communicator::receive_elements_async(Elements data, int source, int tag, Call call) {
  return run_async(state_, "receive_async", call, nullptr, data.data, [&](Waiting& request) {
    prepare_receive(request, data, source, tag);
    start(request);
  });
}

Request Communicator::exchange_elements_async(ConstElements out, int to, Elements in, int from, int tag,
                                              Call call) {
  return run_async(state_, "exchange_async", call, out.data, in.data, [&](Waiting& request) {
    check_disjoint(out, in, "exchange_async");
    prepare_send(request, out, to, tag);
    prepare_receive(request, in, from, tag);
    start(request);
  });
}

Status Communicator::probe(int source, int tag, Call call) {
  const Context::Entry entry{state_->context(), "probe"};
  check_call(call, "probe");
  std::optional<Status> found;
  const auto look = [&] {
    found = find_message(source, tag, "probe");
    return found.has_value();
  };
  // What a departed rank had sent before it went is found first; nothing comes from it any more.
  const auto source_left = [&] {
    if (source == any_source || !state_->context().departed(state_->context_rank(source))) return false;
    state_->context().fail_for_departed(*state_, state_->context_rank(source));
    return true;
  };
  const auto looked_or_failed = [&] { return look() || state_->failure() != nullptr || source_left(); };
  if (!looked_or_failed() && !state_->wait(looked_or_failed, "probe", call)) {
    throw Error{state_->timeout_detail("probe", call)};
  }
  if (!found) state_->require_usable("probe");
  return *found;
}

std::optional<Status> Communicator::try_probe(int source, int tag) {
  const Context::Entry entry{state_->context(), "try_probe"};
  if (auto found = find_message(source, tag, "try_probe")) return found;
  state_->context().engine().step();
  return find_message(source, tag, "try_probe");
}

std::optional<Status> Communicator::find_message(int source, int tag, std::string_view operation) {
  state_->require_usable(operation);
  check_peer(source, state_->size(), true, operation, "source");
  check_tag(tag, true, operation);
  messaging::ReceiveOperation pattern;
  set_pattern(pattern, *state_, source, tag);
  const auto envelope = state_->context().messaging().probe(pattern);
  if (!envelope) return std::nullopt;
  return Status{.source = state_->rank_of(envelope->source),
                .tag = static_cast<int>(envelope->key),
                .bytes = envelope->bytes};
}

void Communicator::barrier(Call call) { run(state_, "barrier", call, start_barrier); }
Request Communicator::barrier_async(Call call) {
  return run_async(state_, "barrier_async", call, nullptr, nullptr, start_barrier);
}

void Communicator::allreduce_elements(ConstElements in, Elements out, Reduction reduction, Call call) {
  run(state_, "allreduce", call, [&](Waiting& request) { start_allreduce(request, in, out, reduction); });
}

Request Communicator::allreduce_elements_async(ConstElements in, Elements out, Reduction reduction,
                                               Call call) {
  return run_async(state_, "allreduce_async", call, in.data, out.data,
                   [&](Waiting& request) { start_allreduce(request, in, out, reduction); });
}

void Communicator::progress() {
  const Context::Entry entry{state_->context(), "progress"};
  state_->context().engine().step();
}

void Communicator::finish(Call call) {
  run(state_, "finish", call, [&](Waiting& request) {
    const collectives::Group group = state_->begin({.operation = "finish"});
    request.has_task = true;
    state_->context().engine().start(request.task, [&] { return collectives::barrier_dissemination(group); });
  });
  state_->mark_finished();
}

void Communicator::abort(std::string_view reason) noexcept { state_->context().abort(reason); }

std::string_view Communicator::allreduce_algorithm(std::size_t element_count,
                                                   std::size_t element_bytes) const {
  return collectives::select_allreduce(state_->context().options().allreduce, size(),
                                       element_count * element_bytes)
      .name;
}

}  // namespace qpmesh
