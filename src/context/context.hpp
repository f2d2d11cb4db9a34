// What init makes: connections, arena, engine, messaging and control channel of
// one rank. Communicators are groups inside it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/control_channel.hpp"
#include "base/log.hpp"
#include "base/process_mark.hpp"
#include "base/rank_identity.hpp"
#include "base/system.hpp"
#include "collectives/real_machine.hpp"
#include "collectives/node/memory.hpp"
#include "collectives/registry.hpp"
#include "collectives/topology_params.hpp"
#include "context/operation_log.hpp"
#include "messaging/messaging.hpp"
#include "progress/engine.hpp"
#include "progress/wait.hpp"
#include "qpmesh/options.hpp"
#include "transport/connection.hpp"
#include "transport/memory.hpp"
#include "transport/neighbour.hpp"

namespace qpmesh::context {

class CommunicatorState;
struct ControlFrame;
class Context;

// Memory of one Communicator::allocate, in this rank's arena. Freed with its last
// owner: Buffers, and operations that use it.
class Allocation {
 public:
  Allocation(std::shared_ptr<Context> context, std::uint64_t offset, std::size_t bytes) noexcept;
  ~Allocation();
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;

  std::byte* data() const noexcept;
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  std::shared_ptr<Context> context_;
  std::uint64_t offset_;
  std::size_t bytes_;
};

// How a rank reaches another one (or itself).
struct PeerLink {
  std::unique_ptr<transport::Connection> connection;
  messaging::PeerPlaces places;  // without connection and seeds
};

// Everything a context is built from; by init from the real world, by the simulation from a simulated one.
struct ContextParts {
  int rank = 0;
  Options options;
  base::Log log;
  std::shared_ptr<const base::System> system;
  base::ProcessMark process{};
  std::uint64_t epoch = 0;
  std::vector<base::RankIdentity> identities;  // in rank order
  std::unique_ptr<transport::Arena> arena;
  std::unique_ptr<const std::uint64_t>
      private_nonce{};  // peers look for it before they copy out of our private memory
  std::vector<std::unique_ptr<transport::Transport>> transports;
  std::vector<PeerLink> links;  // in rank order
  std::unique_ptr<base::ControlChannel> control;
  base::UniqueFd doorbell;  // eventfd, or none
  progress::WaitPolicy wait_policy;
  bool own_core = false;                                    // this node has a core for each of its ranks
  int spins_max = 0;                                        // of a short wait where it stands
  collectives::TopologyParams near{.shares_memory = true};  // of ranks on one node; the same on every rank
  // In rank order; nullptr: not of this node. Empty: memory is not shared. The transports own them.
  std::vector<const transport::Neighbour*> neighbours{};
};

messaging::RingLayout ring_layout(const Options& options) noexcept;

// One thread at a time. Implements what messaging and the engine ask of the floor above.
class Context final : public messaging::Listener,
                      public progress::Pollable,
                      public progress::Armable,
                      public std::enable_shared_from_this<Context> {
 public:
  // In a forked child its last owner leaves it as it is: to take it down would say goodbye in the parent's name, and give back the
  // memory and the queue pairs that the parent uses.
  static std::shared_ptr<Context> make(ContextParts parts);
  explicit Context(ContextParts parts);
  ~Context() override;

  // Is this a copy that a forked child has of its parent's context? Then nothing of it may be used, and every call says so.
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
  // What times are predicted from at all.
  const collectives::Constants& constants() const noexcept { return parts_.near.constants; }
  // A NodeSlab in our arena, zeroed; 0: there is no room, or memory is not shared.
  std::uint64_t make_node_slab();
  void free_node_slab(std::uint64_t offset) noexcept;
  // Of ranks that share memory and all have a slab; nullptr otherwise.
  std::unique_ptr<collectives::NodeMemory> node_memory(std::uint64_t communicator,
                                                       const std::vector<int>& ranks,
                                                       std::vector<std::uint64_t> slabs);
  const collectives::Forced& forced_algorithms() const noexcept { return forced_algorithms_; }
  OperationLog& operations() noexcept { return operations_; }
  int node_of(int rank) const noexcept { return parts_.identities[static_cast<std::size_t>(rank)].node; }
  std::string name_of(int rank) const;  // "rank 3 (pid 123 on host)"

  // The owner of the memory at this address, when it is a Buffer's.
  std::shared_ptr<Allocation> allocation_at(const void* address) const;
  void add_allocation(const std::shared_ptr<Allocation>& allocation);
  // Opens it to the devices, which may touch all of it.
  void register_allocation(const Allocation& allocation);
  void remove_allocation(std::uint64_t offset, std::size_t bytes) noexcept;

  void add(CommunicatorState& communicator);
  void remove(CommunicatorState& communicator) noexcept;

  void send_control(int peer, BlobView frame);
  bool departed(int peer) const noexcept { return departed_[static_cast<std::size_t>(peer)]; }
  // Ends a communicator one of whose operations waits for a rank that left with a goodbye.
  void fail_for_departed(CommunicatorState& communicator, int member);

  // From any thread: peers learn it at once, this rank's operations end when its thread next progresses.
  void abort(std::string_view reason) noexcept;
  bool aborting() const noexcept { return aborting_.load(std::memory_order_acquire); }

  // One thread at a time: the call that finds another one inside throws. Relaxed: it
  // finds mistakes, it does not order memory.
  class Entry {
   public:
    explicit Entry(Context& context, std::string_view operation) : context_{context} {
      if (context.is_inherited()) [[unlikely]]
        context.throw_inherited(operation);
      if (context.in_use_.load(std::memory_order_relaxed)) [[unlikely]]
        throw_in_use(operation);
      if (context.aborting() && !context.abort_taken_) [[unlikely]]
        context.take_abort();
      context.in_use_.store(true, std::memory_order_relaxed);
    }
    ~Entry() { context_.in_use_.store(false, std::memory_order_relaxed); }
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

   private:
    [[noreturn]] static void throw_in_use(std::string_view operation);

    Context& context_;
  };

  // messaging::Listener
  bool agrees(int peer, std::uint64_t communicator, std::uint32_t operation,
              std::uint32_t signature) override;
  void link_failed(ErrorDetail detail) override;
  void communicator_failed(std::uint64_t communicator, ErrorDetail detail) override;

  bool poll() override;  // the control channel, and what transports see now and then
  std::chrono::microseconds arm() noexcept override;

 private:
  static constexpr std::size_t early_failures_max = 256;

  void handle(const base::ControlEvent& event);
  void peer_gone(ErrorDetail detail);
  void pass_verdicts();
  void handle_frame(int peer, BlobView frame);
  void answer_calls(CommunicatorState& state, int peer, const ControlFrame& frame);
  void take_abort();
  void descriptor_lost();
  void abort_with(const ErrorDetail& detail);
  bool begin_abort(const ErrorDetail& detail);  // false: an abort is under way already
  // Of a communicator that does not exist here yet.
  struct EarlyFailure {
    std::uint64_t communicator;
    ErrorDetail detail;  // its peer is a rank of the communicator, or of the context where is_ours
    bool is_ours;        // this rank found it, and the others have not heard of it
  };
  void keep_early_failure(EarlyFailure failure);
  void end_waits_for_departed();
  CommunicatorState* find(std::uint64_t communicator) noexcept;
  [[noreturn]] void throw_inherited(std::string_view operation) const;

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
  struct AllocationEntry {
    std::weak_ptr<Allocation> owner;
    std::vector<std::pair<transport::Transport*, std::uint32_t>> regions;  // where devices know it
  };
  std::map<std::uint64_t, AllocationEntry> allocations_;  // by offset
  bool registration_failed_ = false;                      // and was warned of
  std::vector<bool> departed_;
  bool any_departed_ = false;
  // Ranks that died or cannot be reached, with the first cause.
  std::vector<std::pair<int, ErrorDetail>> gone_;
  std::vector<EarlyFailure> early_failures_;
  // Links that failed: when a rank dies, its links may say so before the control channel does.
  struct FailedLink {
    ErrorDetail detail;
    Deadline verdict;
  };
  std::vector<FailedLink> failed_links_;
  std::atomic<bool> in_use_{false};

  std::mutex control_mutex_;  // abort() comes from any thread; nothing on the hot path takes it
  std::atomic<bool> aborting_{false};
  bool abort_taken_ = false;
  int abort_peer_ = -1;       // who aborted, when it was not us
  ErrorDetail abort_detail_;  // written once, before aborting_
};

}  // namespace qpmesh::context
