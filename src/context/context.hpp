// SPDX-License-Identifier: MIT
// What init makes: connections, arena, engine, messaging and control channel of
// one rank. Communicators are groups inside it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "collectives/choice.hpp"
#include "collectives/node/memory.hpp"
#include "collectives/real_machine.hpp"
#include "collectives/registry.hpp"
#include "context/allocations.hpp"
#include "context/call_history.hpp"
#include "context/parts.hpp"
#include "context/peer_health.hpp"
#include "context/trace.hpp"
#include "messaging/messaging.hpp"
#include "progress/engine.hpp"
#include "progress/resumption.hpp"
#include "progress/wait.hpp"

namespace qpmesh::context {

class CommunicatorState;
struct ControlFrame;

// Where a rank's NodeSlabs for a communicator lie in its arena: of all that is done on one node,
// or before the network, and of what is done after it (collectives/hierarchy.hpp). 0: there is no
// room, or none is needed.
using NodeSlabs = std::array<std::uint64_t, 2>;

// One thread at a time is inside it: the one of them all that calls, or, where several threads may
// call, the one whose turn it is. Implements what messaging and the engine ask of the floor above.
class Context final : public messaging::Listener, public progress::Pollable {
 public:
  // In a forked child its last owner leaves it as it is: to take it down would say goodbye in the
  // parent's name, and give back the memory and the queue pairs that the parent uses.
  static std::shared_ptr<Context> make(ContextParts parts);
  explicit Context(ContextParts parts);
  ~Context() override;

  // Is this a copy that a forked child has of its parent's context? Then nothing of it may be used,
  // and every call says so.
  bool is_inherited() const noexcept { return parts_.process.is_inherited(); }

  int rank() const noexcept { return parts_.rank; }
  int size() const noexcept { return static_cast<int>(parts_.links.size()); }
  const Options& options() const noexcept { return parts_.options; }
  const base::Log& log() const noexcept { return parts_.log; }
  const base::System& system() const noexcept { return *parts_.system; }
  transport::Arena& arena() noexcept { return *parts_.arena; }
  progress::Engine& engine() noexcept { return engine_; }
  progress::Waiter& waiter() noexcept { return waiter_; }
  messaging::Messaging& messaging() noexcept { return messaging_; }
  collectives::Machine& machine() noexcept { return machine_; }
  // What times are predicted from, for a group of ranks; the same on all of them.
  collectives::TopologyParams topology_for(const std::vector<int>& ranks) const noexcept;
  // Before there is a communicator of the user's.
  void know_network(const collectives::NetworkTimes& times) noexcept {
    parts_.near.constants.network = times;
  }
  // In our arena, for that communicator.
  NodeSlabs make_node_slabs(std::uint64_t communicator);
  // Of one that no member of the communicator knows of, or 0.
  void free_node_slab(std::uint64_t slab) noexcept;
  // Do the ranks of every node load each other's memory, but for want of room?
  bool loads_node_memory() const noexcept { return parts_.near.shares_memory; }
  // Of ranks of this node that all have such a slab; named: the same by their ranks in the
  // communicator.
  std::unique_ptr<collectives::NodeMemory> node_memory(std::uint64_t communicator,
                                                       const std::vector<int>& ranks,
                                                       std::span<const int> named,
                                                       const std::vector<std::uint64_t>& slabs);
  // Memory of a rank's arena as this process sees it; nullptr: it does not.
  const std::byte* view_of(int rank, std::uint64_t offset, std::size_t bytes) const noexcept {
    if (parts_.neighbours.empty()) return nullptr;
    const transport::Neighbour* const neighbour = parts_.neighbours[static_cast<std::size_t>(rank)];
    return neighbour == nullptr ? nullptr : neighbour->at(offset, bytes);
  }
  bool reads_neighbours(int rank) const noexcept {
    return parts_.identities[static_cast<std::size_t>(rank)].reads_neighbours;
  }
  // Of a communicator that is gone here. Its slab serves another one when all members have left.
  void keep_slab_of(std::unique_ptr<collectives::NodeMemory> node) noexcept;
  // By what a communicator's algorithms are measured; node: its memory, or nullptr.
  collectives::Measuring measuring(collectives::NodeMemory* node) noexcept {
    const bool measured = parts_.options.choice == ChoiceBy::measured;
    return {.node = measured ? node : nullptr,
            .by_messages = measured && node == nullptr,
            .engine = &engine_,
            .system = parts_.system.get()};
  }
  const collectives::Forced& forced_algorithms() const noexcept { return forced_algorithms_; }
  OperationLog& operations() noexcept { return operations_; }
  int node_of(int rank) const noexcept {
    return parts_.identities[static_cast<std::size_t>(rank)].node;
  }
  std::string name_of(int rank) const;  // "rank 3 (pid 123 on host)"

  Allocations& allocations() noexcept { return allocations_; }

  // Within a call. The operation for which a coroutine waits has ended: it goes on when this call
  // has returned, or another one that returns before, or in the progress thread.
  void resume_behind_call(std::shared_ptr<progress::Resumption> waiting) noexcept {
    resumptions_.push(std::move(waiting));
    exits_in_turn_ = true;
  }

  // For a task that outlives the call which starts it, and that nobody asks for.
  progress::TaskOperation& make_callback();

  // A communicator that is made now. It fails at once where a member is lost already.
  void add(CommunicatorState& communicator);
  void remove(CommunicatorState& communicator) noexcept;
  // Of a communicator that all its members have finished: what came and was not received, and what
  // has come unseen.
  void discard_messages(const CommunicatorState& communicator);
  // This rank had promised to be a member, and will not be: the other members learn that, now or
  // when they make the communicator.
  void disown(std::uint64_t communicator, std::span<const int> members) noexcept;
  // A call of it began, and a member of its node may call something else. Once, until that is known
  // not to be so.
  void check_later(CommunicatorState& communicator) noexcept;

  void send_control(int peer, BlobView frame);
  // The caller's last error: what it says when it leaves.
  void remember_error(ErrorDetail detail) {
    health_.remember(std::move(detail));
    told_finished_ = false;
  }
  // One that broke nothing: it is forgotten when the caller makes another call.
  void remember_passing_error(ErrorDetail detail) {
    health_.remember_passing(std::move(detail), calls_made());
    told_finished_ = false;
  }

  // From any thread: peers learn it at once, this rank's operations end when its thread next
  // progresses.
  void abort(std::string_view reason) noexcept;

  // After a finish(): when no communicator is left that could be used, this rank has said its
  // goodbye, whatever handles there are.
  void finished(const CommunicatorState& communicator);

  // It is made, and called from now on: by several threads, if the options say so, beside one of
  // its own that makes progress, and its calls are traced. Throws Error{no_resource}.
  void admit_calls();
  Trace* trace() noexcept { return trace_.get(); }  // or nullptr

  // A call begins, and ends. Where one thread at a time may call, the call that finds another one
  // inside throws. Relaxed: it finds mistakes, it does not order memory. Where several threads may
  // call it is always in use, and a call waits for its turn; where calls are traced it is, too.
  void enter(std::string_view operation) {
    if (is_inherited() || in_use_.load(std::memory_order_relaxed)) [[unlikely]]
      return enter_in_turn(operation);
    if (health_.abort_waits()) [[unlikely]]
      take_abort();
    in_use_.store(true, std::memory_order_relaxed);
  }
  void exit() noexcept {
    if (exits_in_turn_) [[unlikely]]
      return exit_in_turn();
    in_use_.store(false, std::memory_order_relaxed);
  }
  // For what is done to the context outside of a call. nullptr: one thread at a time may call, or
  // this is a forked child, where a thread that is not there may have had the turn.
  progress::Turn* turn() noexcept { return is_inherited() ? nullptr : waiter_.turn(); }

  // messaging::Listener
  bool agrees(int peer, std::uint64_t communicator, std::uint32_t operation,
              std::uint32_t signature) override;
  void link_failed(ErrorDetail detail) override;
  void communicator_failed(std::uint64_t communicator, ErrorDetail detail) override;

  bool poll() override;  // the control channel, and what transports see now and then
  std::chrono::microseconds request_notification() noexcept override;
  void end_notification() noexcept override;

 private:
  CommunicatorState* find(std::uint64_t communicator) noexcept;
  std::uint64_t make_node_slab(std::uint64_t communicator);
  std::optional<std::uint64_t> take_left_slab() noexcept;
  void tell_what_is_known(CommunicatorState& communicator);
  void enter_in_turn(std::string_view operation);
  void exit_in_turn() noexcept;
  void admit_threads();
  std::uint64_t calls_made() const noexcept;  // of communicators, also of those that are gone
  void make_progress() noexcept;              // the progress thread
  void dismiss_threads() noexcept;            // none but the caller's is left

  // failures.cpp: what is learnt of peers, and what follows for communicators
  void drain();  // takes what is here
  void handle(const base::ControlEvent& event);
  void handle_frame(int peer, BlobView bytes);
  void take_failure(CommunicatorFailure failure);
  int awaited_beside(const CommunicatorState& asked) const;  // no_peer: for nobody
  void handle_mismatch(CommunicatorState& state, int peer, const ControlFrame& frame);
  void answer_calls(CommunicatorState& state, int peer, const ControlFrame& frame);
  void answer_calls_of_let_go(int peer, const ControlFrame& frame);
  void peer_lost(ErrorDetail detail);
  void check_node_calls() noexcept;
  void end_waits_for_departed();
  void fail_for_departed(CommunicatorState& communicator, int member);
  void send_control_to_all(BlobView frame);
  void take_abort();
  void descriptor_lost();
  void abort_with(const ErrorDetail& detail);
  void leave(Farewell::Reason reason) noexcept;
  void tell_farewell(Farewell::Reason reason);

  ContextParts parts_;
  Context* next_inherited_ = nullptr;
  progress::Engine engine_;
  progress::Waiter waiter_;
  messaging::Messaging messaging_;
  collectives::RealMachine machine_;
  collectives::Forced forced_algorithms_;
  OperationLog operations_;
  std::unordered_map<std::uint64_t, CommunicatorState*> communicators_;
  CommunicatorState* last_found_ = nullptr;
  messaging::List<CommunicatorState> unchecked_;
  Allocations allocations_{parts_, waiter_};
  PeerHealth health_;
  std::vector<std::unique_ptr<collectives::NodeMemory>> left_nodes_;
  std::size_t next_left_node_ = 0;                // to be looked at
  std::list<progress::TaskOperation> callbacks_;  // of requests; those that were called, too
  std::size_t callbacks_max_ = 0;                 // before those that were called are erased
  std::atomic<bool> in_use_{false};
  bool always_in_use_ = false;
  bool exits_in_turn_ = false;            // always_in_use_, or somebody goes on behind the call
  progress::ResumptionLine resumptions_;  // who does
  std::atomic<bool> traced_call_{false};  // one is inside, where one thread at a time may call
  std::unique_ptr<Trace> trace_;
  std::thread progress_thread_;
  bool progress_ends_ = false;     // of the thread's; read and written in a turn
  bool* progress_gone_ = nullptr;  // of the thread's: set when it has ended this context itself
  std::mutex control_mutex_;      // abort() comes from any thread; nothing on the hot path takes it
  std::uint64_t past_calls_ = 0;  // of communicators that are gone
  std::uint64_t seen_failed_tasks_ = 0;
  bool has_left_ = false;       // said its goodbye
  bool told_finished_ = false;  // with its last error
  // Of communicators that were let go, the last ones: who waits there may ask what was called.
  // Behind what calls look at.
  struct LetGo {
    std::uint64_t communicator = 0;
    std::unique_ptr<const CallHistory> history{};
  };
  std::array<LetGo, 16> let_go_{};
  std::size_t let_go_count_ = 0;
};

}  // namespace qpmesh::context
