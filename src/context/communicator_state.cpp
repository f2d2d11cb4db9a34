// SPDX-License-Identifier: MIT
#include "context/communicator_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/bytes.hpp"
#include "base/errors.hpp"
#include "context/control_frames.hpp"

namespace qpmesh::context {
namespace {

// A wait that lasts so long tells the awaited rank what was called here: soon enough for an error
// within a second, too late for waits that are as usual.
constexpr std::int64_t first_tell_ms = 200;
// So long before its deadline a wait asks whom it waits for, and that one the next; at most this
// part of the whole wait.
constexpr std::int64_t ask_before_ms = 250;
constexpr std::int64_t ask_before_part = 4;
constexpr std::int64_t never_ms = std::numeric_limits<std::int64_t>::max();

using collectives::NodeMemory;
using collectives::Placement;

Placement placement_of(const Context& context, const std::vector<int>& context_ranks) {
  std::vector<int> nodes;
  nodes.reserve(context_ranks.size());
  for (const int rank : context_ranks) nodes.push_back(context.node_of(rank));
  return Placement{nodes};
}

// A rank's memories on its node: one where the communicator is on that node alone, two where it has
// levels.
std::size_t memory_count(const Placement& placement) { return placement.nodes() == 1 ? 1 : 2; }

// Do the ranks of every node load each other's memory? From what all ranks know, so that they
// agree: it is so on all nodes, or on none.
bool loads_memory(const Context& context, const Placement& placement,
                  const std::vector<NodeSlabs>& slabs) {
  if (slabs.empty() || !context.loads_node_memory()) return false;
  const auto has_slabs = [&](int rank) {
    const std::span<const std::uint64_t> all = slabs[static_cast<std::size_t>(rank)];
    const auto used = all.first(memory_count(placement));
    return std::ranges::find(used, std::uint64_t{0}) == used.end();
  };
  for (int node = 0; node < placement.nodes(); ++node) {
    const std::span ranks = placement.ranks_of(node);
    if (ranks.size() > 1 && !std::ranges::all_of(ranks, has_slabs)) return false;
  }
  return true;
}

// Slabs of this rank that serve none are given back.
std::vector<std::unique_ptr<NodeMemory>> node_memories(Context& context, std::uint64_t id,
                                                       const std::vector<int>& context_ranks,
                                                       const Placement& placement,
                                                       const std::vector<NodeSlabs>& slabs) {
  if (slabs.empty()) return {};
  const auto own_rank = std::ranges::find(context_ranks, context.rank()) - context_ranks.begin();
  const std::span here = placement.ranks_of(placement.node_of(static_cast<int>(own_rank)));
  std::vector<int> members;
  for (const int rank : here) members.push_back(context_ranks[static_cast<std::size_t>(rank)]);
  std::vector<std::unique_ptr<NodeMemory>> memories;
  if (members.size() > 1 && loads_memory(context, placement, slabs)) {
    for (std::size_t i = 0; i < memory_count(placement); ++i) {
      std::vector<std::uint64_t> offsets;
      for (const int rank : here) offsets.push_back(slabs[static_cast<std::size_t>(rank)][i]);
      memories.push_back(context.node_memory(id, members, here, offsets));
    }
  }
  const NodeSlabs& own = slabs[static_cast<std::size_t>(own_rank)];
  for (std::size_t i = memories.size(); i < own.size(); ++i) context.free_node_slab(own[i]);
  return memories;
}

}  // namespace

CommunicatorState::CommunicatorState(std::shared_ptr<Context> context, std::uint64_t id,
                                     std::vector<int> context_ranks,
                                     const std::vector<NodeSlabs>& node_slabs)
    : context_{std::move(context)},
      context_ranks_{std::move(context_ranks)},
      placement_{placement_of(*context_, context_ranks_)},
      nodes_{node_memories(*context_, id, context_ranks_, placement_, node_slabs)},
      selector_{context_->topology_for(context_ranks_), &context_->forced_algorithms(),
                context_->measuring(placement_.nodes() == 1 ? own_node() : nullptr)} {
  NodeMemory* const all = placement_.nodes() == 1 ? own_node() : nullptr;
  members_ = {.machine = &context_->machine(),
              .node = all,
              .context_ranks = context_ranks_.data(),
              .size = size(),
              .rank = rank_of(context_->rank()),
              .communicator = id};
  shape_ = {.size = size(), .one_node = all != nullptr, .cma = all != nullptr && all->cma()};
  if (loads_memory(*context_, placement_, node_slabs)) make_levels();
  context_->add(*this);
}

void CommunicatorState::make_levels() {
  shape_.levels = placement_.levels();
  if (shape_.levels.nodes == 0) return;
  shape_.levels.cma = std::ranges::all_of(
      context_ranks_, [&](int rank) { return context_->reads_neighbours(rank); });
  hierarchy_ = std::make_unique<collectives::Hierarchy>(
      members_,
      collectives::Hierarchy::Setup{.placement = placement_,
                                    .before = own_node(),
                                    .after = nodes_.empty() ? nullptr : nodes_.back().get(),
                                    .cma = !nodes_.empty() && own_node()->cma(),
                                    .topology = context_->topology_for(context_ranks_),
                                    .engine = &context_->engine()});
  members_.hierarchy = hierarchy_.get();
}

CommunicatorState::~CommunicatorState() {
  if (context_->is_inherited()) return;  // nobody asks that context any more
  const progress::HeldTurn turn{context_->turn()};
  if (has_detached()) end_detached();
  context_->remove(*this);
  for (auto& node : nodes_) {
    node->leave();
    // A member that is slower may still read what we published last.
    context_->keep_slab_of(std::move(node));
  }
}

// Their tasks end by being resumed, and free them. What a neighbour has begun to fill nobody can
// stop: that alone is waited for. Who may wait for a message of ours that is taken back is told.
void CommunicatorState::end_detached() noexcept {
  fail({.code = ErrorCode::aborted,
        .peer = rank(),
        .cause = "its communicator went while it was in flight",
        .hint = "finish() waits for detached operations"},
       context_->messaging().has_sends(id()));
  context_->messaging().end_closing(id());
  context_->engine().run_ready();
  while (has_detached()) context_->waiter().look();
}

int CommunicatorState::search_rank(int context_rank) const noexcept {
  const auto found = std::find(context_ranks_.begin(), context_ranks_.end(), context_rank);
  return found == context_ranks_.end() ? -1 : static_cast<int>(found - context_ranks_.begin());
}

void CommunicatorState::throw_unusable(std::string_view operation) const {
  if (failure_) throw_failure(*failure_, operation);
  base::bad_argument(operation, "finish() is the last call on a communicator",
                     "the communicator has finished");
}

void CommunicatorState::fail(ErrorDetail detail, bool tell, bool says_who_saw) {
  if (failure_) return;
  context_->remember_error(in_context(detail));
  auto failure = std::make_unique<const Error>(std::move(detail));
  // Before anything else that may throw: now no operation is left.
  context_->messaging().fail(id(), *failure);
  failure_ = std::move(failure);
  for (const auto& node : nodes_) node->fail(*failure_);
  context_->log().info("communicator {:016x} failed: {}", id(), failure_->what());
  if (tell) {
    const Blob frame = encode({.kind = ControlFrame::Kind::failure,
                               .communicator = id(),
                               .detail = failure_->detail(),
                               .says_who_saw = says_who_saw});
    for (const int member : context_ranks_) {
      if (member != context_->rank()) context_->send_control(member, frame);
    }
  }
}

void CommunicatorState::fail_by_task_errors() {
  requests_.for_each([&](const HeldRequest& held) {
    if (held.task.done && held.task.error && failure_ == nullptr)
      fail(detail_of(held.operation_name, held.task.error), true);
  });
}

ErrorDetail CommunicatorState::detail_of(std::string_view operation,
                                         const std::exception_ptr& thrown) const {
  ErrorDetail failure{.code = ErrorCode::no_resource, .peer = rank()};
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    return error.detail();
  } catch (const collectives::UserFailure& user) {
    failure.code = ErrorCode::aborted;
    failure.operation = operation;
    failure.cause = "the reduction function of that rank threw: " + base::text_of(user.cause);
  } catch (const std::exception& error) {
    failure.cause = error.what();
  }
  return failure;
}

std::uint64_t CommunicatorState::next_child_id() const noexcept {
  return base::mix64(id() ^ base::mix64(next_child_ + 1));
}

void CommunicatorState::wait_for_message(const messaging::ReceiveOperation& pattern,
                                         std::string_view operation, std::int64_t timeout_ms) {
  const auto over = [&] { return failure_ != nullptr || context_->messaging().probe(pattern); };
  if (over()) return;
  WaitingProbe probe{pattern};
  probes_.push_back(probe);
  const auto until_it_ends = [this](WaitingProbe* ended) { probes_.remove(*ended); };
  const std::unique_ptr<WaitingProbe, decltype(until_it_ends)> listed{&probe, until_it_ends};
  if (!wait(over, operation, timeout_ms)) throw_vain_end(operation, timeout_ms);
}

bool CommunicatorState::probes(int peer) const noexcept {
  for (const WaitingProbe* probe = probes_.first(); probe != nullptr; probe = probe->next) {
    const messaging::ReceiveOperation& pattern = probe->pattern;
    if (pattern.source == peer && !context_->messaging().probe(pattern)) return true;
  }
  return false;
}

void CommunicatorState::throw_vain_end(std::string_view operation, std::int64_t timeout_ms) {
  const ErrorDetail detail = vain_end_detail(operation, timeout_ms);
  remember_passing_error(detail);
  throw Error{detail};
}

std::optional<int> CommunicatorState::awaited_context_rank() const {
  if (const WaitingProbe* const probe = probes_.first();
      probe != nullptr && probe->pattern.source != messaging::any_peer)
    return probe->pattern.source;
  if (const auto peer = context_->messaging().awaited(id())) return peer;
  return of_nodes([](const collectives::NodeMemory& node) { return node.awaited(); });
}

std::optional<int> CommunicatorState::filler() const noexcept {
  if (const auto peer = context_->messaging().fills(id())) return peer;
  return of_nodes([](const collectives::NodeMemory& node) { return node.filler(); });
}

void CommunicatorState::warn_filled(std::string_view operation) {
  const auto peer = filler();
  if (!peer) return;
  context_->log().warning(
      "{} waits for {}, which is held up while it copies into the buffer of this call: the buffer "
      "is not given back before it goes on or ends, whatever the deadline is "
      "[hint: look what stops that process, or set QPMESH_COOPERATIVE_COPY=no]",
      operation, context_->name_of(*peer));
}

CommunicatorState::StallTimes CommunicatorState::stall_times(
    std::int64_t timeout_ms) const noexcept {
  const std::int64_t warning_ms = context_->options().stall_warning_ms;
  const std::int64_t before_ms = std::min(ask_before_ms, timeout_ms / ask_before_part);
  return {.tell_ms = warning_ms == 0 ? first_tell_ms : std::min(first_tell_ms, warning_ms),
          .ask_ms = timeout_ms == 0 ? never_ms : std::max<std::int64_t>(1, timeout_ms - before_ms)};
}

// Where calls differ in who sends, as in their roots, nothing comes by which either side would see
// it: so the awaited rank is told what was called here, again and again, since it may come to its
// own call later. Along those who wait for each other, if that is why they wait, two neighbours
// differ.
std::int64_t CommunicatorState::stalled(std::string_view operation, StallTimes& times) {
  const std::int64_t warning_ms = context_->options().stall_warning_ms;
  const std::int64_t stall_ms = times.next_ms();
  if (times.stalled_waits == nullptr) ++*(times.stalled_waits = &stalled_waits_);
  const auto peer = awaited_context_rank();
  if (stall_ms == times.ask_ms) {
    times.ask_ms = never_ms;
    asked_.clear();
    if (peer && *peer != context_->rank()) ask_awaited(*peer);
  }
  if (stall_ms != times.tell_ms) return times.next_ms();
  if (warning_ms > 0 && stall_ms >= warning_ms && filler()) {
    warn_filled(operation);
  } else if (stall_ms == warning_ms) {
    context_->log().warning("{} has waited {} ms{}{}; last operations here: {}", operation,
                            warning_ms, peer ? " for " : "", peer ? context_->name_of(*peer) : "",
                            context_->operations().describe());
  }
  // Who waits for anybody asks the next one.
  tell_calls(peer.value_or(context_rank((rank() + 1) % size())), false);
  if (stall_ms < warning_ms) times.tell_ms = std::min(2 * stall_ms, warning_ms);
  else times.tell_ms = warning_ms == 0 ? 2 * stall_ms : stall_ms + warning_ms;
  return times.next_ms();
}

void CommunicatorState::ask_awaited(int context_rank) {
  asked_.push_back(context_rank);
  context_->send_control(
      context_rank, encode({.kind = ControlFrame::Kind::whom_do_you_await, .communicator = id()}));
}

// Who waits for nobody here, or does not answer, is the one that all the others wait for. Those who
// wait in a circle are all to blame: then it is the one that this rank waits for.
void CommunicatorState::hear_awaited(int peer, int awaited) {
  if (asked_.empty() || asked_.back() != peer || awaited == no_peer || rank_of(awaited) < 0) return;
  const bool circle =
      awaited == context_->rank() || std::ranges::find(asked_, awaited) != asked_.end();
  if (!circle) return ask_awaited(awaited);
  asked_.erase(asked_.begin() + 1, asked_.end());
}

ErrorDetail CommunicatorState::in_context(ErrorDetail detail) const {
  const bool is_member = detail.peer >= 0 && detail.peer < size();
  detail.peer = is_member ? context_rank(detail.peer) : no_peer;
  return detail;
}

void CommunicatorState::remember_passing_error(const ErrorDetail& detail) {
  context_->remember_passing_error(in_context(detail));
}

void CommunicatorState::tell_calls(int context_rank, bool differ) {
  if (context_rank == context_->rank() || failure_) return;
  const CallHistory::Signatures signatures = history_.signatures();
  if (signatures.values.empty()) return;
  context_->send_control(context_rank, encode({.kind = ControlFrame::Kind::calls,
                                               .communicator = id(),
                                               .reply_wanted = differ,
                                               .signatures = signatures}));
}

ErrorDetail CommunicatorState::vain_end_detail(std::string_view operation,
                                               std::int64_t timeout_ms) const {
  if (progress::Waiter::was_interrupted()) {
    return {.code = ErrorCode::aborted,
            .peer = rank(),
            .operation = std::string{operation},
            .cause = fmt::format("{} was interrupted on that rank while it waited", operation)};
  }
  const auto peer = awaited_context_rank();
  ErrorDetail detail{.code = ErrorCode::timeout, .operation = std::string{operation}};
  if (peer) {
    const bool was_asked = !asked_.empty() && asked_.front() == *peer;
    const int late = was_asked ? asked_.back() : *peer;
    detail.peer = rank_of(late);
    detail.cause =
        fmt::format("{} did not do its part within {} ms; it is alive as far as the kernel knows",
                    context_->name_of(late), timeout_ms);
    if (late != *peer) {
      detail.cause +=
          fmt::format(", and {}, which is awaited here, waits for it{}", context_->name_of(*peer),
                      asked_.size() > 2 ? " by way of others" : "");
    }
  } else {
    detail.cause = fmt::format("nothing came within {} ms", timeout_ms);
  }
  detail.hint =
      fmt::format("last operations of rank {}: {}; the limit is {} or CallOptions::timeout",
                  context_rank(rank()), context_->operations().describe(),
                  operation == "independent" ? "QPMESH_INIT_TIMEOUT_MS" : "QPMESH_TIMEOUT_MS");
  return detail;
}

// An error that another operation has met says so: it is no new one.
void throw_failure(const Error& failure, std::string_view operation) {
  ErrorDetail detail = failure.detail();
  const bool is_its_own = detail.operation.empty() || detail.operation == operation;
  if (!is_its_own && detail.code != ErrorCode::aborted)
    detail.cause = fmt::format("the communicator failed in {}: {}", detail.operation, detail.cause);
  if (is_its_own || detail.code != ErrorCode::aborted) detail.operation = operation;
  throw Error{std::move(detail)};
}

}  // namespace qpmesh::context
