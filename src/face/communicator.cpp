// SPDX-License-Identifier: MIT
// The public face over the floors below: arguments are checked, the operation
// is started, and waited for or handed out.
#include "qpmesh/communicator.hpp"

#include <array>
#include <memory>
#include <vector>

#include "calls/argument_checks.hpp"
#include "calls/end_callback.hpp"
#include "calls/pending_operation.hpp"
#include "collectives/registry.hpp"
#include "face/run.hpp"
#include "startup/init.hpp"

namespace qpmesh {

using namespace calls;
using namespace context;
using namespace detail;

namespace {

std::string_view async_name_of(Collective collective) noexcept {
  constexpr std::array<std::string_view, collective_count> names{
      "barrier_async",        "broadcast_async", "reduce_async", "allgather_async",
      "reduce_scatter_async", "allreduce_async", "gather_async", "scatter_async",
      "alltoall_async",       "scan_async",      "exscan_async"};
  return names[static_cast<std::size_t>(collective)];
}

void require_one_thread(Context& context, std::string_view operation) {
  if (context.turn() == nullptr) return;
  bad_argument(
      operation,
      "take a context of its own for the event loop: independent() of one with QPMESH_THREADS=one",
      "several threads use the context, and one of them may sleep for all");
}

// Blocks that are ranges may each lie in a Buffer.
void keep_listed(RequestState& request, const void* first, const AnyLayout* layout) {
  if (layout == nullptr || !layout->is_list) return;
  const Allocations& buffers = request.communicator->context().allocations();
  for (std::size_t i = 0; i < layout->counts.size(); ++i) {
    const std::byte* const block = static_cast<const std::byte*>(first) + layout->displacements[i];
    if (layout->counts[i] > 0 && buffers.may_hold(block))
      request.keep().listed.push_back(buffers.at(block));
  }
}
void keep_listed(RequestState& request, const AnyCollective& what) {
  keep_listed(request, what.in.data, what.in_layout);
  keep_listed(request, what.out.data, what.out_layout);
}
void keep_listed(RequestState& /*request*/, const AnyVectors& /*what*/) {}  // it keeps its own

// read, written: in Buffers that the operation keeps, perhaps.
template <class What>
Request start_as(std::string_view operation, const std::shared_ptr<CommunicatorState>& state,
                 const What& what, const CallOptions& options, const void* read,
                 const void* written) {
  const CallScope scope{*held(state, operation), operation, options};
  return run_async(state, operation, options, read, written, [&](RequestState& request) {
    keep_listed(request, what);
    What kept = what;
    if (what.reduction.copy != nullptr) {
      auto& function = request.keep().function;
      function = what.reduction.copy(what.reduction.context);
      kept.reduction.context = function.get();
    }
    calls::start_collective(request, kept, options.algorithm);
  });
}

// Nobody leaves before all have come.
void meet_and_finish(CommunicatorState& state, const CallOptions& options) {
  const CallScope scope{state, "finish", options};
  require_no_requests(state, "finish");
  calls::finish_detached(state, "finish", options);
  require_no_calls(state, "finish");
  state.begin_finish();
  PendingOperation request{state, "finish", options};
  const collectives::Group group = state.begin({.operation = "finish"});
  const collectives::Algorithm& algorithm = collectives::barrier_one_shot.applies(state.shape())
                                                ? collectives::barrier_one_shot
                                                : collectives::barrier_dissemination;
  calls::start_algorithm(request, group, algorithm, collectives::no_arguments);
  finish_waiting(request);
  state.context().discard_messages(state);
  state.finish();
}

}  // namespace

void detail::was_moved_from(std::string_view operation) {
  bad_argument(operation, "use what it was moved to", "the object was moved from, and is empty");
}

Communicator::Communicator(std::shared_ptr<CommunicatorState> state) noexcept
    : state_{std::move(state)} {}
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&&) noexcept = default;
Communicator::~Communicator() = default;

int Communicator::rank() const noexcept { return state_ == nullptr ? no_rank : state_->rank(); }
int Communicator::size() const noexcept { return state_ == nullptr ? 0 : state_->size(); }

void Communicator::run_collective(const detail::AnyCollective& what, const CallOptions& options) {
  if (state_ == nullptr) [[unlikely]]
    was_moved_from(collectives::collective_name(what.collective));
  calls::run_collective(*state_, what, options);
}

Request Communicator::start_collective(const detail::AnyCollective& what,
                                       const CallOptions& options) {
  return start_as(async_name_of(what.collective), state_, what, options, what.in.data,
                  what.out.data);
}

void Communicator::run_collective(const detail::AnyVectors& what, const CallOptions& options) {
  calls::run(*held(state_, "allreduce_each"), "allreduce_each", options,
             [&](PendingOperation& request) {
               calls::start_collective(request, what, options.algorithm);
             });
}

Request Communicator::start_collective(const detail::AnyVectors& what, const CallOptions& options) {
  return start_as("allreduce_each_async", state_, what, options, nullptr, nullptr);
}

void Communicator::progress() {
  const CallScope scope{held(state_, "progress")->context(), "progress"};
  state_->context().waiter().disarm();
  state_->context().waiter().look();
}

int Communicator::wait_fd() {
  const CallScope scope{held(state_, "wait_fd")->context(), "wait_fd"};
  require_one_thread(state_->context(), "wait_fd");
  return state_->context().waiter().descriptor();
}

std::chrono::milliseconds Communicator::arm_wait() {
  const CallScope scope{held(state_, "arm_wait")->context(), "arm_wait"};
  require_one_thread(state_->context(), "arm_wait");
  return state_->context().waiter().arm();
}

void Communicator::finish(const CallOptions& options) {
  CommunicatorState& state = *held(state_, "finish");
  try {
    meet_and_finish(state, options);
  } catch (const Error& error) {
    // One that was refused, as for another call, leaves all as it is.
    const progress::HeldTurn turn{state.context().turn()};
    if (error.code() != ErrorCode::bad_argument && state.failure() != nullptr)
      state.context().finished(state);
    throw;
  }
}

void Communicator::abort(std::string_view reason) noexcept {
  if (state_ != nullptr) state_->context().abort(reason);
}

std::vector<Candidate> Communicator::explain(Collective collective, std::size_t bytes) const {
  const progress::HeldTurn turn{held(state_, "explain")->context().turn()};
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
  return Access::communicator(startup::init_over(bootstrap, options));
}

Communicator init(const Options& options) {
  return Access::communicator(startup::init_from_environment(options));
}

Communicator init() { return init(Options::from_environment()); }

}  // namespace qpmesh
