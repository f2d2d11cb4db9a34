// SPDX-License-Identifier: MIT
// What the ranks of one node see of each other during a collective: one slab of each rank's arena,
// mapped by all.
//
// Operations have numbers, the same on every rank. Operation k of a rank publishes in the slot
// of turn k mod slot_count in one of two banks: a number and a step, and where its data lie: in the
// slot, in its staging, or in a Buffer; readers do not care. Only the owner writes a slab, but for
// a guard. A slot, or a part of the staging, is written again when every member has finished the
// operation that used it before.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/cpu.hpp"
#include "collectives/choice_words.hpp"
#include "collectives/node/staging.hpp"
#include "collectives/node/words.hpp"
#include "progress/engine.hpp"
#include "transport/neighbour.hpp"

namespace qpmesh::messaging {
class CallChecker;
}

namespace qpmesh::collectives {

inline constexpr int node_ranks_max = 64;
// More than a core has requests for only wait for each other.
inline constexpr std::size_t node_prefetch_bytes_max = 2048;
// Classes of calls of a communicator whose algorithm is measured. Of those that come later it is
// predicted.
inline constexpr std::uint32_t measured_classes_max = 64;
inline constexpr int populated_members_max = 8;  // of more, all staging is much memory

// In the library, peers are other processes.
using NodeSlot = NodeSlotWords<base::ProcessAtomics>;
static_assert(sizeof(NodeSlot) / alignof(NodeSlot) % 2 == 1, "the sets of a cache");
struct NodeSlab : NodeWords<base::ProcessAtomics> {
  alignas(128) std::byte staging[node_staging_bytes];
  // By number of the class: in the order of their first calls, which is the same at all members.
  ChoiceWords<base::ProcessAtomics> choices[measured_classes_max];
};

// Waits until members have come to a step of an operation. Lies in the awaiting coroutine's frame.
struct NodeWait : progress::Operation {
  enum class For : std::uint8_t {
    stage,         // a slot's, of this operation
    stage_or_end,  // the same, or the operation's end at a member that never comes to it
    end,           // the members' OwnNodeWords::done to reach `stage`
    fill,  // `next` to settle the guard of our slot, which it began to fill for operation `stage`
    decision,  // rank 0 to say who runs round `stage` of the class `slot`
    readers,   // the members to have read that
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

// Of blocks between two members, in one direction: which operations moved how many bytes.
class Gifts {
 public:
  void add(std::uint64_t number, std::size_t bytes) noexcept {
    // The factors are odd and otherwise arbitrary.
    sum_ += (2 * number + 1) * 0x9fb21c651e98df25U * (bytes ^ 0xd6e8feb86659fd93U);
  }
  std::uint16_t sum() const noexcept { return static_cast<std::uint16_t>(sum_ >> 48) | 1U; }

 private:
  std::uint64_t sum_ = 0;
};

class NodeMemory final : public progress::Pollable {
 public:
  struct Setup {
    // By rank on the node, this one included.
    std::vector<const transport::Neighbour*> members{};
    std::vector<std::uint64_t> offsets{};  // of their slabs
    std::vector<int> context_ranks{};
    std::vector<int> named{};  // by errors: ranks in the communicator
    int rank = 0;
    std::uint64_t communicator = 0;
    bool cma = false;                 // all members read each other's private memory
    bool cooperative_copies = false;  // members that wait for the same long vector copy it together
    int spins_max = 0;                // of a short wait where it stands; 0: members share cores
  };
  NodeMemory(Setup setup, progress::Engine& engine, messaging::CallChecker& calls);
  ~NodeMemory() override;
  NodeMemory(const NodeMemory&) = delete;
  NodeMemory& operator=(const NodeMemory&) = delete;

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  int context_rank_of(int rank) const noexcept { return peer(rank).context_rank; }
  int named(int rank) const noexcept { return peer(rank).named; }  // by errors
  int rank_of(int context_rank) const noexcept {                   // -1: not a member
    for (int rank = 0; rank < size_; ++rank) {
      if (peer(rank).context_rank == context_rank) return rank;
    }
    return -1;
  }
  NodeSlab& slab(int rank) const noexcept {
    return static_cast<NodeSlab&>(peer(rank).words.words());
  }
  NodeSlab& own_slab() const noexcept { return static_cast<NodeSlab&>(own_.words()); }
  OwnNodeWords<base::ProcessAtomics>& own_words() noexcept { return own_; }
  std::optional<std::uint64_t> offset_in_arena(const void* data, std::size_t bytes) const noexcept;
  // Of a member's data. Throws Error{corrupt} for what does not lie in its arena.
  std::byte* data(int rank, std::uint64_t offset, std::size_t bytes) const;
  // The same of what lies in its staging.
  std::byte* staged(int rank, std::uint64_t begin, std::size_t bytes) const {
    if (begin > node_staging_bytes || bytes > node_staging_bytes - begin) [[unlikely]]
      throw_outside_staging(rank, begin, bytes);
    return slab(rank).staging + begin;
  }
  // The same of what lies in a slot of its.
  const std::byte* in_slot(int rank, const NodeSlot& slot, std::size_t begin,
                           std::size_t bytes) const {
    if (begin > node_slot_bytes || bytes > node_slot_bytes - begin) [[unlikely]]
      throw_outside_staging(rank, begin, bytes);
    return slot.data + begin;
  }
  // Do all members read each other's private memory? The same on all of them.
  bool cma() const noexcept { return cma_; }
  // After a copy out of a member's Buffer or private memory: may it have been written meanwhile?
  bool is_revoked(int rank) const noexcept { return slab(rank).revocations.has_changed_since(0); }
  // Of a member's private memory. False: the member is gone, or has revoked what it gave. Throws
  // Error{no_resource} where the system forbids it by now.
  bool copy_private(int rank, std::byte* target, std::uint64_t address, std::size_t bytes) const;

  // Do the members copy long vectors together, each on a core of its own? The same on all of them.
  bool fills_together() const noexcept { return fills_together_; }
  // Fills what a member has opened in its slot, if it still may.
  void fill(int rank, NodeSlot& slot, std::span<const std::byte> source) const noexcept {
    peer(rank).memory->fill(slot.guard, slot.target, source);
  }
  base::FillShare& broadcast_share() noexcept { return broadcast_share_; }
  base::FillShare& gather_share() noexcept { return gather_share_; }

  // call: as slots name it.
  std::uint64_t begin(std::uint64_t call) noexcept {
    newest_call_ = call;
    return next_number_++;
  }
  bool is_newest(std::uint64_t number) const noexcept { return next_number_ == number + 1; }
  std::uint64_t operation_count() const noexcept { return next_number_; }  // begun until now
  Gifts& gifts_to(int rank) noexcept { return peers_[static_cast<std::size_t>(rank)].gifts_to; }
  Gifts& gifts_from(int rank) noexcept { return peers_[static_cast<std::size_t>(rank)].gifts_from; }
  // Of classes of calls that are measured: numbers of NodeSlab::choices.
  bool has_class_left() const noexcept { return class_count_ < measured_classes_max; }
  std::uint32_t take_class() noexcept { return class_count_++; }
  std::uint32_t class_count() const noexcept { return class_count_; }
  // Takes the pages of all members' slots, and of staging for vectors of so many bytes, here: who
  // takes them one by one measures that. Where there are few members.
  void populate(std::size_t vector_bytes) noexcept;
  // What is tried runs in all the staging that it will have: its pages are there, and nearer than
  // where the system has cleared them.
  void use_all_staging() noexcept {
    staging_.use_all();
    const std::size_t old_bytes = populated_bytes_;
    if (staging_.reach_bytes() <= old_bytes) return;
    populate_staging(staging_.reach_bytes());
    warm_staging(old_bytes);
  }
  // Do ranks have a core with others?
  bool shares_cores() const noexcept { return shares_cores_; }
  // Operations that stage so many bytes each go once through all of it.
  std::size_t operations_through_staging(std::size_t bytes) const noexcept {
    return staging_.parts_of(bytes);
  }
  StagingRing::Part take_staging(std::uint64_t number, std::size_t bytes) noexcept {
    if (staging_.reach_bytes() > populated_bytes_) [[unlikely]]
      populate_staging(staging_.reach_bytes());
    return staging_.take(number, bytes);
  }
  void end(std::uint64_t number) noexcept;
  void publish(NodeSlot& slot, std::uint64_t stage) noexcept;
  // What this rank writes soon, for so many bytes of data: its lines are taken from the members
  // that read them last, while we wait anyway.
  void prefetch_slot(NodeSlot& own_slot, std::size_t data_bytes) noexcept {
    auto* const slot = reinterpret_cast<std::byte*>(&own_slot);
    const bool staged = data_bytes > node_slot_bytes;
    prefetch_for_write(slot, offsetof(NodeSlot, data) + (staged ? 0 : data_bytes));
    if (staged) {
      prefetch_for_write(own_slab().staging + staging_.next_begin(data_bytes),
                         std::min(data_bytes, node_prefetch_bytes_max));
    }
  }

  // Had members come to their steps before this rank looked, in its last waits? Then they have
  // written their next slots, too. Who fetches a line that is still to be written takes it out of
  // its owner's cache, and the owner waits to have it back: it would never come to be ahead.
  bool members_run_ahead() const noexcept {
    constexpr std::uint32_t waits_of_a_stream = 16;
    return waits_over_at_once_ >= waits_of_a_stream;
  }
  // Some members' slots of that index, with so many bytes of data in each. The line of the stage,
  // which the owner writes last, only where no member has been waited for in so many operations
  // that they must be far ahead: where they are near, one wait in a hundred is not over at once.
  void fetch_slots(std::uint32_t index, int first, int end, std::size_t data_bytes) const noexcept {
    const std::size_t bytes =
        std::min(offsetof(NodeSlot, data) + (data_bytes > node_slot_bytes ? 0 : data_bytes),
                 node_prefetch_bytes_max / static_cast<std::size_t>(end - first));
    constexpr std::uint32_t waits_of_far_ahead = 128;
    const std::size_t begin =
        waits_over_at_once_ >= waits_of_far_ahead ? 0 : base::cache_line_bytes;
    for (int rank = first; rank < end; ++rank) {
      if (rank == rank_) continue;
      const auto* const slot = reinterpret_cast<const std::byte*>(&slab(rank).slots[index]);
      for (std::size_t offset = begin; offset < bytes; offset += base::cache_line_bytes)
        base::prefetch(slot + offset);
    }
  }

  // Had every member finished so many operations when this rank last asked them all?
  bool is_known_done(std::uint64_t target) const noexcept {
    return has_reached(done_by_all_, target);
  }
  // True: nothing to wait for any more. Otherwise the wait is registered, and its operation
  // completes.
  bool start(NodeWait& wait) noexcept { return is_soon_over(wait) || enlist(wait); }
  // The same, and nothing is registered.
  bool is_soon_over(NodeWait& wait) noexcept {
    if (wait.what == NodeWait::For::end && is_known_done(wait.stage)) return true;
    const bool is_of_step = wait.what <= NodeWait::For::stage_or_end && wait.next < wait.end;
    for (int spin = 0; spin < spins_max_; ++spin) {
      if (look(wait)) {
        if (is_of_step) waits_over_at_once_ = spin == 0 ? waits_over_at_once_ + 1 : 0;
        return true;
      }
      // Loads without a pause take the line from its writer between two of its stores.
      base::cpu_pause();
    }
    return false;
  }
  bool poll() override;
  // Of the communicator: ends all waits, now and later; those for who fills our memory when it does
  // no more.
  void fail(const Error& failure) noexcept;
  std::optional<int> awaited() const noexcept;  // rank in the communicator
  bool waits_for(int rank) noexcept;            // after another look
  // Nobody rings for the end of a member's operation, and of what it fills: who waits for that
  // looks often. Not who waits for a step: a member that ends without it makes an error, and a
  // second is soon enough.
  std::chrono::microseconds request_notification() noexcept override;
  // The member that fills our memory, which would otherwise be its owner's again.
  std::optional<int> filler() const noexcept;
  // A member that had begun to fill and is gone fills no more.
  void poll_costly() noexcept override;
  // Has a member called something else than we did? For a rank that waits for something else and
  // did not need to look, as the root of a broadcast, or whose member publishes in the other bank:
  // the error comes through the listener. own: our last call, as slots name it. True: every member
  // has made it, as what it has published last says, or it has ended the operation of the node that
  // it is, without a word of another call. Then there is nothing to look at until we make another.
  bool check_calls(std::uint64_t own) noexcept;
  // This rank reads nothing of the members' any more.
  void leave() noexcept { own_.leave(); }
  // Nobody reads our slab any more: it may serve another communicator.
  bool everybody_has_left() const noexcept;

 private:
  struct Peer {
    MemberNodeWords<base::ProcessAtomics> words;
    const transport::Neighbour* memory;
    int context_rank;
    int named;  // by errors
    Gifts gifts_to{};
    Gifts gifts_from{};
  };

  static void prefetch_for_write(std::byte* begin, std::size_t bytes) noexcept {
    for (std::size_t offset = 0; offset < bytes; offset += base::cache_line_bytes)
      base::prefetch_for_write(begin + offset);
  }
  void populate_staging(std::size_t bytes) noexcept;
  void warm_staging(std::size_t begin) noexcept;
  [[noreturn]] void throw_outside_staging(int rank, std::uint64_t begin, std::size_t bytes) const;
  const Peer& peer(int rank) const noexcept { return peers_[static_cast<std::size_t>(rank)]; }
  bool look(NodeWait& wait) noexcept {
    while (wait.next < wait.end && has_come(wait.next, wait)) ++wait.next;
    if (wait.next < wait.end) return false;
    if (wait.what == NodeWait::For::end) note_done_by_all();
    return true;
  }
  void note_done_by_all() noexcept {
    done_by_all_ = own_.done();
    for (const Peer& member : peers_) {
      const bool is_self = &member == &peer(rank_);
      if (!is_self && !has_reached(member.words.known_done(), done_by_all_))
        done_by_all_ = member.words.known_done();
    }
  }
  bool has_come(int rank, const NodeWait& wait) noexcept {
    Peer& member = peers_[static_cast<std::size_t>(rank)];
    // This rank waits for a step that it has come to itself. Its own line is not looked at: it
    // would be fetched back from the members who read it, which doubled the time of a small
    // allreduce.
    if (rank == rank_)
      return wait.what == NodeWait::For::stage || has_reached(own_.done(), wait.stage);
    if (wait.what != NodeWait::For::stage && wait.what != NodeWait::For::stage_or_end)
      return is_over(member, wait);
    const NodeSlot& slot = member.words.words().slots[wait.slot];
    std::uint64_t call = wait.call;
    const bool come = wait.what == NodeWait::For::stage
                          ? member.words.has_come(slot, wait.stage, own_.done(), call)
                          : member.words.has_come_or_ended(slot, wait.stage, own_.done(), call);
    if (!come) return false;
    if (call == wait.call) [[likely]]
      return true;
    report(member, call);
    return false;
  }
  bool is_over(Peer& member, const NodeWait& wait) const noexcept {
    if (wait.what == NodeWait::For::decision || wait.what == NodeWait::For::readers) {
      const auto& choice = static_cast<const NodeSlab&>(member.words.words()).choices[wait.slot];
      return wait.what == NodeWait::For::decision ? choice.has_decided(wait.stage)
                                                  : choice.has_read(wait.stage);
    }
    if (wait.what == NodeWait::For::end) return member.words.is_done(wait.stage, own_.done());
    return own_slab().slots[wait.slot].guard.phase_of(wait.stage) != transport::FillGuard::begun;
  }
  // Does the newest slot of a member show our last call? Its signature stands for all calls before
  // it, too.
  bool has_made(const Peer& member, std::uint64_t own) const noexcept;
  // At what a member has published in the turns of operations since all agreed, and of the next
  // one.
  void look_at_calls(const Peer& member) noexcept;
  // Admits the call, or tells the listener of a difference.
  void report(const Peer& member, std::uint64_t call) noexcept;
  bool enlist(NodeWait& wait) noexcept;
  void remove(NodeWait& wait) noexcept;

  progress::Engine& engine_;
  messaging::CallChecker& calls_;
  std::vector<Peer> peers_;
  int size_;
  int rank_;
  OwnNodeWords<base::ProcessAtomics> own_;
  std::uint64_t communicator_;
  bool fills_together_;
  base::FillShare broadcast_share_;
  base::FillShare gather_share_ = base::FillShare::most();
  bool shares_cores_;
  int spins_max_;
  std::uint64_t next_number_ = 0;
  std::uint64_t newest_call_ = 0;
  std::uint32_t class_count_ = 0;
  std::size_t populated_bytes_ = 0;  // of staging
  // So many operations every member had finished when this rank last asked them all: saves asking.
  std::uint64_t done_by_all_ = 0;
  std::uint32_t waits_over_at_once_ = 0;  // of the last ones, for steps of members
  StagingRing staging_;
  NodeWait* waits_ = nullptr;
  const Error* failure_ = nullptr;
  std::optional<std::uint64_t> agreed_call_{};  // made by all members, as were those before it
  std::uint64_t agreed_count_ = 0;              // operations that had begun then
  bool reported_ = false;                       // a difference, once
  bool cma_;
};

}  // namespace qpmesh::collectives
