// The public face over the floors below: arguments are checked, the operation
// is started, and waited for or handed out.
#include "qpmesh/communicator.hpp"

#include <fmt/format.h>

#include <functional>
#include <limits>
#include <memory>

#include "base/bytes.hpp"
#include "collectives/barrier/barrier.hpp"
#include "collectives/registry.hpp"
#include "request_state.hpp"

namespace qpmesh {

using detail::CollectiveCall;
using detail::CommunicatorState;
using detail::ConstElements;
using detail::Context;
using detail::Elements;
using detail::RequestState;
using detail::Waiting;

namespace {

[[noreturn]] void bad_argument(std::string_view operation, std::string cause, std::string hint = {},
                               int peer = no_peer) {
  throw Error{{.code = ErrorCode::bad_argument,
               .peer = peer,
               .operation = std::string{operation},
               .cause = std::move(cause),
               .hint = std::move(hint)}};
}

[[noreturn]] void bad_range(std::string_view operation, const void* data, std::size_t element_count,
                            std::size_t element_bytes) {
  if (data == nullptr) bad_argument(operation, fmt::format("null with a count of {}", element_count));
  bad_argument(
      operation,
      fmt::format("{} elements of {} bytes are more than memory can hold", element_count, element_bytes),
      "a negative count, turned unsigned, looks like this");
}
[[noreturn]] void bad_peer(std::string_view operation, const CommunicatorState& state, std::string_view what,
                           int peer) {
  bad_argument(operation, fmt::format("{} {} is not a rank of this communicator", what, peer),
               fmt::format("ranks here are 0 to {}", state.size() - 1), peer);
}
[[noreturn]] void bad_tag(std::string_view operation, int tag) {
  bad_argument(operation, fmt::format("tag {} is negative", tag), "tags are 0 to 2147483647");
}

// Bytes of a caller's range; checked, because a range may come from arithmetic that went wrong.
template <class Range>
std::size_t checked_bytes(const Range& range, std::string_view operation) {
  constexpr auto bytes_max = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());
  const auto bytes = base::checked_multiply(range.element_count, range.element_bytes);
  if (!bytes || *bytes > bytes_max || (range.data == nullptr && *bytes > 0)) [[unlikely]] {
    bad_range(operation, range.data, range.element_count, range.element_bytes);
  }
  return *bytes;
}

inline void check_peer(const CommunicatorState& state, int peer, bool any_allowed, std::string_view operation,
                       std::string_view what) {
  if (static_cast<unsigned>(peer) < static_cast<unsigned>(state.size()) ||
      (any_allowed && peer == any_source)) [[likely]]
    return;
  bad_peer(operation, state, what, peer);
}

inline void check_tag(int tag, bool any_allowed, std::string_view operation) {
  if (tag >= 0 || (any_allowed && tag == any_tag)) [[likely]]
    return;
  bad_tag(operation, tag);
}

bool overlap(const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes) {
  const std::less<> before;  // of unrelated pointers
  const auto* const first = static_cast<const std::byte*>(a);
  const auto* const second = static_cast<const std::byte*>(b);
  return a_bytes > 0 && b_bytes > 0 && before(first, second + b_bytes) && before(second, first + a_bytes);
}

// ---- point to point: fill in a request's operations, and start them ----

void prepare_send(Waiting& request, const ConstElements& data, int destination, int tag) {
  CommunicatorState& state = *request.communicator;
  const std::size_t bytes = checked_bytes(data, request.operation);
  check_peer(state, destination, false, request.operation, "destination");
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
  check_peer(state, source, true, request.operation, "source");
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
  const std::size_t bytes = checked_bytes(in, request.operation);
  checked_bytes(out, request.operation);
  if (in.element_count != out.element_count) {
    bad_argument(request.operation,
                 fmt::format("in has {} elements, out has {}", in.element_count, out.element_count));
  }
  if (in.data != out.data && overlap(in.data, bytes, out.data, bytes)) {
    bad_argument(request.operation, fmt::format("in and out overlap without being the same {} bytes", bytes),
                 "use one range in place, or two that do not touch");
  }
  const collectives::ReduceKernel kernel = collectives::reduce_kernel(reduction.kind, in.type);
  if (kernel == nullptr)
    bad_argument(request.operation, "a bitwise reduction of a floating type has no meaning");
  const CollectiveCall call{.operation = "allreduce",
                            .element_count = in.element_count,
                            .element_bytes = static_cast<std::uint32_t>(in.element_bytes),
                            .type = in.type,
                            .reduction = reduction.kind};
  const auto& algorithm =
      collectives::select_allreduce(state.context().options().allreduce, state.size(), bytes);
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
    if (overlap(out.data, checked_bytes(out, "exchange"), in.data, checked_bytes(in, "exchange"))) {
      bad_argument("exchange", "what is sent and what is received into overlap");
    }
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
    if (overlap(out.data, checked_bytes(out, "exchange_async"), in.data,
                checked_bytes(in, "exchange_async"))) {
      bad_argument("exchange_async", "what is sent and what is received into overlap");
    }
    prepare_send(request, out, to, tag);
    prepare_receive(request, in, from, tag);
    start(request);
  });
}

Status Communicator::probe(int source, int tag, Call call) {
  const Context::Entry entry{state_->context(), "probe"};
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
  check_peer(*state_, source, true, operation, "source");
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
