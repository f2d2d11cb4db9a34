// What the ranks of one node see of each other during a collective: one slab of each rank's arena, mapped by all.
//
// Operations have numbers, the same on every rank. Operation k of a rank publishes in its slot k mod slot_count: a number and a step,
// and where its data lies: in the slot, in staging, or in a Buffer; readers do not care. Only the owner writes a slab, but for a guard. A
// slot, and the staging behind it, is written again when every member has finished the operation that used it before.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/cpu.hpp"
#include "messaging/messaging.hpp"
#include "progress/engine.hpp"
#include "transport/neighbour.hpp"

namespace qpmesh::collectives {

inline constexpr int node_ranks_max = 64;
inline constexpr std::size_t node_slot_bytes = 8192;  // of data in a slot
// Of data staged at once: a turn of everybody for each.
inline constexpr std::size_t node_chunk_bytes = 256 << 10;
// More than a core has requests for only wait for each other.
inline constexpr std::size_t node_prefetch_bytes_max = 2048;
inline constexpr std::uint32_t node_slot_count = 4;  // operations of one communicator that may be in flight

// Where data lie that a rank has for the others.
enum class Place : std::uint32_t {
  slab,    // in the slot itself, or they come through staging
  buffer,  // in the owner's arena
  process  // in its private memory: ProcessMemory copies them
};

// Where an operation stands at one rank. Written by the owner, read by all members.
struct alignas(128) NodeSlot {
  // Low half of the operation's number plus one, and its step. Stored last, by a sequentially consistent exchange: releases the fields below
  // and the data, and pairs with Waiter::sleep as the flag of a record does. Equality of numbers is enough: a member cannot come
  // to the next operation of this slot before we have finished this one.
  std::atomic<std::uint64_t> stage;
  // The collective's number in the communicator, and in the upper half what every rank must call alike.
  std::atomic<std::uint64_t> call;
  // As NodeSlab::done, when this was published: saves looking there. A member that sees an earlier stage may read it too.
  std::atomic<std::uint32_t> done;
  Place place;           // of the data
  std::uint64_t offset;  // of the data: in the owner's arena, or the address in its process
  // Reductions are applied to it where it lies: aligned as elements of the caller's may be.
  alignas(16) std::byte data[node_slot_bytes];  // NOLINT(*-avoid-c-arrays): a layout in shared memory
  // Of a result that others will read: behind the data, so that small ones share the line of the stage.
  std::uint64_t result_offset;
  Place result_place;
  // Private memory that another member may fill: addresses in the owner's process.
  alignas(128) base::FillGuard guard;
  std::uint64_t guard_address;
  std::uint64_t target_address;
  std::uint64_t target_begin;  // in the vector; to its end
};

struct NodeSlab {
  // So many operations, the first ones without a hole, are finished here: nothing of a peer's is read for them any more.
  alignas(128) std::atomic<std::uint32_t> done;
  // 1: the communicator has failed here, and its Buffers may be their owner's again: what is copied out of them is looked at after this
  // one only.
  std::atomic<std::uint32_t> withdrawn;
  NodeSlot slots[node_slot_count];  // NOLINT(*-avoid-c-arrays)
  // An operation that stages takes the set that the one before it did not, and in it turns from chunk to chunk.
  alignas(128) std::byte staging[2][2][node_chunk_bytes];  // NOLINT(*-avoid-c-arrays)
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// Waits until members have come to a step of an operation. Lies in the awaiting coroutine's frame.
struct NodeWait : progress::Operation {
  enum class For : std::uint8_t {
    stage,  // a slot's, of this operation
    end,    // NodeSlab::done to reach `stage`
  };
  std::uint64_t stage;
  std::uint64_t call;  // what members must have called, too
  std::uint32_t slot;
  For what;
  int next;  // the first member that has not come, of those before end
  int end;
  NodeWait* previous_wait;  // of those that are enlisted
  NodeWait* next_wait;
};

class NodeMemory final : public progress::Pollable {
 public:
  struct Setup {
    std::vector<const transport::Neighbour*> members{};  // by rank in the communicator, this one included
    std::vector<std::uint64_t> offsets{};                // of their slabs
    std::vector<int> context_ranks{};
    int rank = 0;
    std::uint64_t communicator = 0;
    bool cma = false;       // all members read each other's private memory
    bool own_core = false;  // of each member
    int spins_max = 0;      // of a short wait where it stands
  };
  NodeMemory(Setup setup, progress::Engine& engine, messaging::Listener& listener);
  ~NodeMemory() override;
  NodeMemory(const NodeMemory&) = delete;
  NodeMemory& operator=(const NodeMemory&) = delete;

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  NodeSlab& slab(int rank) const noexcept { return *peers_[static_cast<std::size_t>(rank)].slab; }
  NodeSlab& own_slab() const noexcept { return *own_slab_; }
  std::optional<std::uint64_t> offset_in_arena(const void* data, std::size_t bytes) const noexcept;
  // Of a member's data. Throws Error{corrupt} for what does not lie in its arena.
  std::byte* data(int rank, std::uint64_t offset, std::size_t bytes) const;
  // Do all members read each other's private memory? The same on all of them.
  bool cma() const noexcept { return cma_; }
  // After a copy out of a member's Buffer or private memory: may it have been written meanwhile?
  bool is_withdrawn(int rank) const noexcept {
    base::order_loads();
    return slab(rank).withdrawn.load(std::memory_order_relaxed) != 0;
  }
  // Of a member's private memory. False: the member is gone, or has withdrawn what it gave. Throws Error{no_resource} where the system
  // forbids it by now.
  bool copy_private(int rank, std::byte* target, std::uint64_t address, std::size_t bytes) const;

  // Do the members copy long vectors together, each on a core of its own? The same on all of them.
  bool fills_together() const noexcept { return cma_ && base::ProcessMemory::can_fill && own_core_; }
  // Fills what a member has opened for the operation, if it still may.
  void fill(int rank, NodeSlot& slot, std::uint64_t number,
            std::span<const std::byte> source) const noexcept {
    peers_[static_cast<std::size_t>(rank)].memory->private_memory().fill(
        slot.guard, slot.guard_address, number, slot.target_address, source.data(), source.size());
  }
  base::FillShare& fill_share() noexcept { return fill_share_; }
  bool ends_soon(int rank) const noexcept {
    return peers_[static_cast<std::size_t>(rank)].memory->private_memory().ends_soon();
  }

  std::uint32_t begin() noexcept { return next_number_++; }
  // A set of staging buffers for this operation, and which operation must be done before it is written.
  struct StagingSet {
    std::size_t set = 0;
    std::uint32_t done_before = 0;  // as NodeSlab::done
  };
  StagingSet take_staging(std::uint32_t number) noexcept {
    const std::size_t set = next_staging_set_;
    next_staging_set_ ^= 1;
    return {set, std::exchange(staging_done_before_[set], number + 1)};
  }
  void end(std::uint32_t number) noexcept;
  void publish(NodeSlot& slot, std::uint64_t stage) noexcept;
  // The slot that this rank writes next, for so many bytes of data: its lines are taken from the members that read them last, while
  // we wait anyway.
  void prefetch_slot(std::uint32_t number, std::size_t data_bytes) noexcept {
    NodeSlot& slot = own_slab().slots[number % node_slot_count];
    const std::size_t bytes = offsetof(NodeSlot, data) + std::min(data_bytes, node_prefetch_bytes_max);
    for (std::size_t place = 0; place < bytes; place += base::cache_line_bytes)
      base::prefetch_for_write(reinterpret_cast<std::byte*>(&slot) + place);
  }

  // True: nothing to wait for any more. Otherwise the wait is registered, and its operation completes.
  bool start(NodeWait& wait) noexcept {
    for (int spin = 0; spin < spins_max_; ++spin) {
      if (look(wait)) return true;
      base::cpu_pause();  // loads without a pause take the line from its writer between two of its stores
    }
    return enlist(wait);
  }
  bool poll() override;
  void fail(const Error& failure) noexcept;     // of the communicator: ends all waits, now and later
  std::optional<int> awaited() const noexcept;  // rank in the communicator
  bool waits_for(int rank) noexcept;            // after another look
  // Does it wait for the end of a member's operation? Nobody rings for that.
  bool awaits_end() const noexcept;
  // Has a member called something else than we did? For a rank that waits for something else and did not need to look, as the
  // root of a broadcast: the error comes through the listener.
  void check_calls() noexcept;
  // As far as this rank has learnt, no member reads anything of operations before the last one any more.
  bool is_quiet() const noexcept;

 private:
  struct Peer {
    NodeSlab* slab;
    const transport::Neighbour* memory;
    int context_rank;
    std::uint32_t known_done = 0;
  };

  bool look(NodeWait& wait) noexcept {
    while (wait.next < wait.end && has_come(wait.next, wait)) ++wait.next;
    return wait.next == wait.end;
  }
  bool has_come(int rank, const NodeWait& wait) noexcept {
    Peer& peer = peers_[static_cast<std::size_t>(rank)];
    // This rank waits for a step that it has come to itself. Its own line is not looked at: it would be fetched back from the members
    // who read it, which doubled the time of a small allreduce.
    if (rank == rank_)
      return wait.what == NodeWait::For::stage || has_reached(done_, static_cast<std::uint32_t>(wait.stage));
    if (wait.what == NodeWait::For::end) return is_done(peer, static_cast<std::uint32_t>(wait.stage));
    const NodeSlot& slot = peer.slab->slots[wait.slot];
    const std::uint64_t stage = slot.stage.load(std::memory_order_acquire);
    if (stage >> 32 != wait.stage >> 32 || stage < wait.stage) return false;
    const std::uint32_t done = slot.done.load(std::memory_order_acquire);
    if (static_cast<std::int32_t>(done - peer.known_done) > 0) peer.known_done = done;
    const std::uint64_t call = slot.call.load(std::memory_order_relaxed);
    if (call == wait.call) [[likely]]
      return true;
    report(peer, call);
    return false;
  }
  static bool is_done(Peer& peer, std::uint32_t target) noexcept {
    if (has_reached(peer.known_done, target)) return true;
    peer.known_done = peer.slab->done.load(std::memory_order_acquire);
    return has_reached(peer.known_done, target);
  }
  static bool has_reached(std::uint32_t done, std::uint32_t target) noexcept {
    return static_cast<std::int32_t>(done - target) >= 0;
  }
  void report(const Peer& peer,
              std::uint64_t call) noexcept;  // admits, or tells the listener of a difference
  bool enlist(NodeWait& wait) noexcept;
  void remove(NodeWait& wait) noexcept;

  progress::Engine& engine_;
  messaging::Listener& listener_;
  std::vector<Peer> peers_;
  int size_;
  int rank_;
  NodeSlab* own_slab_ = nullptr;
  std::uint64_t communicator_;
  bool own_core_;
  base::FillShare fill_share_;
  int spins_max_;
  std::uint32_t next_number_ = 0;
  std::uint32_t done_ = 0;
  std::uint64_t finished_beyond_ = 0;  // bit i: operation done_ + 1 + i
  std::size_t next_staging_set_ = 0;
  std::array<std::uint32_t, 2> staging_done_before_{};  // the users of the sets, plus one
  NodeWait* waits_ = nullptr;
  const Error* failure_ = nullptr;
  bool reported_ = false;  // a difference, once
  bool cma_;
};

}  // namespace qpmesh::collectives
