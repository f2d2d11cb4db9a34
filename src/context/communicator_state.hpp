// SPDX-License-Identifier: MIT
// A group inside a context, and the state of its operations.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "collectives/choice.hpp"
#include "collectives/group.hpp"
#include "collectives/hierarchy.hpp"
#include "collectives/node/memory.hpp"
#include "context/call_history.hpp"
#include "context/context.hpp"
#include "context/prepared_call.hpp"
#include "qpmesh/error.hpp"
#include "qpmesh/request.hpp"

namespace qpmesh::context {

// A request that a caller holds, as its communicator knows it.
struct HeldRequest {
  HeldRequest(std::string_view name, const progress::TaskOperation& its_task) noexcept
      : operation_name{name}, task{its_task} {}

  std::string_view operation_name;
  const progress::TaskOperation& task;  // not done where it has none
  bool detached = false;
  HeldRequest* previous = nullptr;
  HeldRequest* next = nullptr;
};

// A probe that waits, in its caller's frame: each thread may have one.
struct WaitingProbe {
  const messaging::ReceiveOperation& pattern;
  WaitingProbe* previous = nullptr;
  WaitingProbe* next = nullptr;
};

class CommunicatorState {
 public:
  CommunicatorState* previous = nullptr;  // NOLINT(readability-identifier-naming): of a List
  CommunicatorState* next = nullptr;      // NOLINT(readability-identifier-naming): of a List

  // node_slabs: of each rank, by rank here. Ours are this object's from now on.
  CommunicatorState(std::shared_ptr<Context> context, std::uint64_t id,
                    std::vector<int> context_ranks, const std::vector<NodeSlabs>& node_slabs = {});
  ~CommunicatorState();

  Context& context() noexcept { return *context_; }
  const std::shared_ptr<Context>& context_pointer() const noexcept { return context_; }
  std::uint64_t id() const noexcept { return members_.communicator; }
  int rank() const noexcept { return members_.rank; }
  int size() const noexcept { return static_cast<int>(context_ranks_.size()); }
  int context_rank(int rank) const noexcept {
    return context_ranks_[static_cast<std::size_t>(rank)];
  }
  int rank_of(int context_rank) const noexcept {  // -1: not a member
    // The usual communicator holds every rank in order: the look-up is one comparison.
    const auto index = static_cast<std::size_t>(context_rank);
    if (index < context_ranks_.size() && context_ranks_[index] == context_rank) return context_rank;
    return search_rank(context_rank);
  }
  const std::vector<int>& context_ranks() const noexcept { return context_ranks_; }

  // Throws what an operation that starts now must throw: the communicator's failure, or finished.
  void require_usable(std::string_view operation) const {
    if (failure_ != nullptr || is_finishing_) [[unlikely]]
      throw_unusable(operation);
  }
  const Error* failure() const noexcept { return failure_.get(); }
  // Fails by the error of a request's task that nobody has waited for yet: the others wait for what
  // it would have sent.
  void fail_by_task_errors();
  // With the rank in the context for the one here; what came from a peer may be anything.
  ErrorDetail in_context(ErrorDetail detail) const;
  // Of what an operation of this rank threw.
  ErrorDetail detail_of(std::string_view operation, const std::exception_ptr& thrown) const;
  // The first cause counts. tell: the other members learn it, before anything that this rank does
  // because of it. says_who_saw: it came from another rank, and its text says from which.
  void fail(ErrorDetail detail, bool tell, bool says_who_saw = false);
  bool finished() const noexcept { return finished_; }
  // A call of ours made it for itself: when it is let go nobody asks what was called there.
  bool is_for_one_call() const noexcept { return is_for_one_call_; }
  void mark_for_one_call() noexcept { is_for_one_call_ = true; }
  // finish() is the last call, also where another thread has one.
  void begin_finish() noexcept { is_finishing_ = true; }
  void finish() {
    finished_ = true;
    context_->finished(*this);
  }

  // A collective begins: the call, with its signature, is checked against what peers already sent
  // of it.
  collectives::Group begin(const CollectiveCall& call, std::uint32_t signature) noexcept {
    const CallHistory::Begun begun = history_.begin(call, signature);
    context_->operations().add_collective(
        call.operation.text, call.element_count * call.element_bytes, id(), begun.operation);
    context_->messaging().recheck_signatures(id(), begun.operation);
    if (!is_unchecked_ && !nodes_.empty()) [[unlikely]] {
      is_unchecked_ = true;
      context_->check_later(*this);
    }
    return {members_, begun.operation, begun.signature};
  }
  collectives::Group begin(const CollectiveCall& call) { return begin(call, call.signature()); }
  // The last call of the collective, for one like it: where this rank was the root, or was not. One
  // without a root says rank 0. nullptr: there was none.
  std::unique_ptr<PreparedCall>& prepared(Collective collective, bool is_root) noexcept {
    return prepared_[static_cast<std::size_t>(collective)][is_root ? 1 : 0];
  }
  CallHistory& history() noexcept { return history_; }
  void count_call() noexcept { ++calls_made_; }
  std::uint64_t calls_made() const noexcept { return calls_made_; }
  messaging::List<HeldRequest>& requests() noexcept { return requests_; }
  // What a request uses outlives the last handle. The first that is held takes one reference for
  // all: a count that is shared is too dear for each. self: of this object.
  void hold(HeldRequest& request, const std::shared_ptr<CommunicatorState>& self) noexcept {
    if (requests_.empty()) held_by_requests_ = self;
    requests_.push_back(request);
  }
  // With the last request that reference goes to the caller, who drops it behind all that uses it.
  std::shared_ptr<CommunicatorState> let_go(HeldRequest& request) noexcept {
    (request.detached ? detached_ : requests_).remove(request);
    if (request.detached) return nullptr;
    return requests_.empty() ? std::move(held_by_requests_) : nullptr;
  }
  // From here on it keeps nothing alive. let_go() takes it, too.
  std::shared_ptr<CommunicatorState> detach(HeldRequest& request) noexcept {
    std::shared_ptr<CommunicatorState> last = let_go(request);
    request.detached = true;
    detached_.push_back(request);
    return last;
  }
  bool has_detached() const noexcept { return !detached_.empty(); }
  // Calls of other threads that wait for messages.
  bool has_waiting_calls() const {
    return !probes_.empty() || context_->messaging().has_operations(id());
  }
  collectives::Selector& selector() noexcept { return selector_; }
  // What every call's CallShape has alike: the ranks, and what they share.
  const collectives::CallShape& shape() const noexcept { return shape_; }
  // Has a member of the node called something else? Asked since a call began, until all are known
  // to have made the last one.
  void check_node_calls() noexcept {
    is_unchecked_ = false;
    const std::optional<CallHistory::Begun> last = history_.last();
    if (failure_ != nullptr || finished_ || !last) return;
    for (const auto& node : nodes_) {
      is_unchecked_ |= !node->check_calls(collectives::node_call(last->operation, last->signature));
    }
  }
  bool is_unchecked() const noexcept { return is_unchecked_; }
  // After looking once more: what a rank published stays readable when it has left.
  bool waits_on_node_for(int context_rank) noexcept {
    return std::ranges::any_of(
        nodes_, [&](const auto& node) { return node->waits_for(node->rank_of(context_rank)); });
  }

  // The id of the n-th child is a function of ours: no communication.
  std::uint64_t next_child_id() const noexcept;
  std::uint64_t take_child_id() noexcept {
    const std::uint64_t id = next_child_id();
    ++next_child_;
    return id;
  }

  // The same of the n-th group that its members make by themselves, under one name.
  std::uint64_t take_subgroup_id(std::uint64_t name) {
    const std::uint64_t count = ++subgroups_[name];
    return base::mix64(id() ^ base::mix64(name ^ base::mix64(~count)));
  }

  // What the call asks for, or else the options.
  std::int64_t timeout_ms_of(const CallOptions& options) const noexcept {
    return options.timeout.ms_or(context_->options().operation_timeout_ms);
  }
  // Waits until the operation is done; otherwise false after the deadline, or an interruption. The
  // awaited rank learns what was called here, and the log who is awaited; again and again, who
  // fills the operation's buffer. The contexts of the others are progressed, too.
  template <class Done>
  bool wait(Done&& done, std::string_view operation, std::int64_t timeout_ms,
            progress::Waiter::Others others = {}, progress::Asks asks = progress::Asks::yes) {
    StallTimes times = stall_times(timeout_ms);
    return context_->waiter().wait_until(
        done, {.timeout_ms = timeout_ms, .stall_ms = times.next_ms(), .asks = asks},
        [&] { return stalled(operation, times); }, others);
  }
  // Until a message is there that fits, or the communicator has failed. Throws Error{timeout}, or
  // Error{aborted} where it is interrupted.
  void wait_for_message(const messaging::ReceiveOperation& pattern, std::string_view operation,
                        std::int64_t timeout_ms);
  // Is there a probe of this rank of the context, or of messaging::any_peer? What had come before
  // the rank left is found first.
  bool probes(int peer) const noexcept;
  // The rank in the context that fills a buffer of an operation here.
  std::optional<int> filler() const noexcept;
  void warn_filled(std::string_view operation);
  // Tells a member what was called here. differ: we have seen that it called something else.
  void tell_calls(int context_rank, bool differ);
  // Who an operation that did not end waits for.
  std::optional<int> awaited_context_rank() const;
  // Does some call of this rank wait here, and for long?
  bool is_stalled() const noexcept { return stalled_waits_ > 0; }
  // Of a wait that ended in vain: its deadline passed, or it was interrupted.
  ErrorDetail vain_end_detail(std::string_view operation, std::int64_t timeout_ms) const;
  // Where that ends nothing: the communicator lives on.
  [[noreturn]] void throw_vain_end(std::string_view operation, std::int64_t timeout_ms);
  // The answer of a rank that was asked shortly before a deadline.
  void hear_awaited(int peer, int awaited);
  // Of what the caller is told and what broke nothing: see Context::remember_passing_error.
  void remember_passing_error(const ErrorDetail& detail);

 private:
  // When a wait is looked at next, counted from its begin. From the first look to its end it counts
  // as stalled.
  struct StallTimes {
    ~StallTimes() {
      if (stalled_waits != nullptr) --*stalled_waits;
    }
    std::int64_t tell_ms;
    std::int64_t ask_ms;
    int* stalled_waits = nullptr;  // once it counts
    std::int64_t next_ms() const noexcept { return std::min(tell_ms, ask_ms); }
  };
  void end_detached() noexcept;
  collectives::NodeMemory* own_node() const noexcept {  // nullptr: there is none
    return nodes_.empty() ? nullptr : nodes_.front().get();
  }
  void make_levels();
  // The first member that ask(node) names: its rank in the context.
  template <class Ask>
  std::optional<int> of_nodes(Ask&& ask) const noexcept {
    for (const auto& node : nodes_) {
      if (const std::optional<int> member = ask(*node)) return node->context_rank_of(*member);
    }
    return std::nullopt;
  }
  int search_rank(int context_rank) const noexcept;
  [[noreturn]] void throw_unusable(std::string_view operation) const;
  StallTimes stall_times(std::int64_t timeout_ms) const noexcept;
  // The wait has lasted until the next of the times. Returns when it is to be looked at next.
  std::int64_t stalled(std::string_view operation, StallTimes& times);
  void ask_awaited(int context_rank);

  std::shared_ptr<Context> context_;
  std::vector<int> context_ranks_;
  collectives::Placement placement_;
  // Where ranks of this one's node load each other's memory: one for all of the communicator, or
  // two where it has levels.
  std::vector<std::unique_ptr<collectives::NodeMemory>> nodes_;
  collectives::Selector selector_;
  collectives::Group::Members members_;
  std::unique_ptr<collectives::Hierarchy> hierarchy_;
  collectives::CallShape shape_;
  std::uint32_t next_child_ = 0;
  std::unordered_map<std::uint64_t, std::uint64_t> subgroups_;  // made under each name
  bool is_finishing_ = false;                                   // and perhaps finished
  bool finished_ = false;
  bool is_for_one_call_ = false;
  bool is_unchecked_ = false;  // and so in the context's list
  // Who was asked before the deadline, one after the other: each but the last has named the next.
  // Ranks of the context.
  std::vector<int> asked_;
  int stalled_waits_ = 0;
  std::unique_ptr<const Error> failure_;
  messaging::List<WaitingProbe> probes_;
  CallHistory history_;
  std::uint64_t calls_made_ = 0;  // by the caller
  std::array<std::array<std::unique_ptr<PreparedCall>, 2>, collective_count> prepared_;
  messaging::List<HeldRequest> requests_;
  messaging::List<HeldRequest> detached_;
  std::shared_ptr<CommunicatorState> held_by_requests_;  // this one, while there are any
};

// Throws the failure with the operation that met it.
[[noreturn]] void throw_failure(const Error& failure, std::string_view operation);

}  // namespace qpmesh::context
