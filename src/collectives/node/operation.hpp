// SPDX-License-Identifier: MIT
// One rank's part in one operation on a node, as a node algorithm sees it: publish, wait for
// members, read what they published.
#pragma once

#include <array>
#include <span>
#include <tuple>
#include <utility>

#include "base/cpu_copy.hpp"
#include "collectives/group.hpp"
#include "collectives/node/memory.hpp"

namespace qpmesh::collectives {

// Ranks from first on, before end.
struct RankRange {
  int first = 0;
  int end = 0;

  bool has(int rank) const noexcept { return rank >= first && rank < end; }
};

// Until a wait has ended. Trivially destructible, as everything that a task awaits.
class NodeAwaiter {
 public:
  NodeAwaiter(NodeMemory& memory, NodeWait::For what, std::uint32_t slot, std::uint64_t stage,
              std::uint64_t call, RankRange who) noexcept
      : memory_{memory} {
    wait_.what = what;
    wait_.slot = slot;
    wait_.stage = stage;
    wait_.call = call;
    wait_.next = who.first;
    wait_.end = who.end;
  }
  // Without a task: is it over before it would be awaited?
  bool is_soon_over() noexcept { return memory_.is_soon_over(wait_); }
  bool await_ready() noexcept { return memory_.start(wait_); }
  // Most waits end before they come here.
  void await_suspend(Task::Handle waiter) noexcept {
    join_ = {.outstanding = 1, .waiter = &waiter.promise()};
    wait_.join = &join_;
  }
  void await_resume() const {
    if (wait_.failure != nullptr) throw Error{*wait_.failure};
  }

 private:
  NodeMemory& memory_;
  NodeWait wait_;
  progress::Join join_;
};
static_assert(std::is_trivially_destructible_v<NodeAwaiter>);

// A local variable of the algorithm, made first: numbers are given in the order of the calls. Its
// end tells the members that we read nothing of theirs any more.
class NodeOperation {
 public:
  // staging_bytes: of its staging, which this rank alone needs.
  explicit NodeOperation(const Group& group, std::size_t staging_bytes = 0,
                         SlotBank bank = SlotBank::ahead) noexcept
      : memory_{group.node()},
        call_{node_call(group.operation(), group.signature())},
        number_{memory_.begin(call_)},
        bank_{bank} {
    if (staging_bytes > 0) staging_ = memory_.take_staging(number_, staging_bytes);
  }
  // To the task that goes on with it.
  NodeOperation(NodeOperation&& other) noexcept
      : memory_{other.memory_},
        call_{other.call_},
        number_{other.number_},
        staging_{other.staging_},
        bank_{other.bank_},
        kind_{other.kind_},
        ends_{std::exchange(other.ends_, false)} {}
  NodeOperation& operator=(NodeOperation&&) = delete;
  ~NodeOperation() {
    if (ends_) memory_.end(number_);
  }

  // Until this rank's slot, and its part of the staging, may be written: every member has finished
  // the operations that used them before.
  NodeAwaiter own_slot() noexcept {
    const std::uint64_t of_slot = number_ + 1 - node_slot_count;
    return all_done(has_reached(of_slot, staging_.done_before) ? of_slot : staging_.done_before);
  }
  // The same of this rank alone, which publishes nothing: ends are counted so far ahead and no
  // further.
  NodeAwaiter own_end() noexcept {
    return wait_for(NodeWait::For::end, number_ + 1 - node_slot_count,
                    {memory_.rank(), memory_.rank() + 1});
  }
  // Is the wait for own_slot(), or for own_end(), over by what is known here? The usual case, for a
  // comparison; false says nothing.
  bool has_own_slot() const noexcept {
    const std::uint64_t of_slot = number_ + 1 - node_slot_count;
    return memory_.is_known_done(of_slot) && memory_.is_known_done(staging_.done_before);
  }
  bool has_own_end() const noexcept {
    return has_reached(memory_.own_words().done(), number_ + 1 - node_slot_count);
  }
  // Until some members, all of them, or one, have come to a step.
  NodeAwaiter members(RankRange who, std::uint32_t step) noexcept {
    return wait_for(NodeWait::For::stage, stage(step), who);
  }
  NodeAwaiter all(std::uint32_t step) noexcept { return members({0, memory_.size()}, step); }
  NodeAwaiter member(int rank, std::uint32_t step) noexcept {
    return members({rank, rank + 1}, step);
  }
  // Until a member has come to a step, or has ended the operation without: it never will.
  NodeAwaiter member_or_end(int rank, std::uint32_t step) noexcept {
    return wait_for(NodeWait::For::stage_or_end, stage(step), {rank, rank + 1});
  }
  // After that wait: which of the two?
  bool has_come(int rank, std::uint32_t step) noexcept { return member(rank, step).is_soon_over(); }
  // Throws what is wrong with a member's part. Not an end that others may see: who waits for a step
  // of ours is to learn this error, and not to think that the step is not due.
  [[noreturn]] void refuse(ErrorDetail wrong) {
    ends_ = false;
    throw Error{std::move(wrong)};
  }
  int named(int rank) const noexcept { return memory_.named(rank); }  // by errors
  // Until this rank learns of the failure for which a member revoked its Buffers.
  NodeAwaiter failure_of(int rank) noexcept { return member(rank, node_step_max); }
  // After reads of all members' Buffers: nothing to wait for, unless one was revoked and may have
  // been written meanwhile. Also where a last step of all follows: who gave up may have come to it
  // already.
  NodeAwaiter none_revoked() noexcept {
    for (int rank = 0; rank < memory_.size(); ++rank) {
      if (rank != memory_.rank() && is_revoked(rank)) return failure_of(rank);
    }
    return members({}, 1);
  }

  // How much staging `publish` needs for so many bytes.
  static constexpr std::size_t staging_for(std::size_t bytes) noexcept {
    return bytes > node_slot_bytes ? bytes : 0;
  }
  // This rank has come to step 1, with data that lie in its slot or, longer ones, in its staging.
  void publish(std::span<const std::byte> data) noexcept {
    if (data.size() <= node_slot_bytes) [[likely]] {
      own().put(data);
      publish_slot(MemoryKind::slab);
    } else {
      base::copy_bytes(staging(), data.data(), data.size());
      publish_staged();
    }
    prefetch_next(data.size());
  }
  // Takes the lines of this rank's slot of a later operation, for so many bytes, should it be in
  // this bank.
  void prefetch_next(std::size_t bytes) noexcept {
    const std::uint64_t later = number_ + slots_fetched_ahead(bank_);
    memory_.prefetch_slot(memory_.own_slab().slot(later, bank_), bytes);
  }
  // Of who takes so many bytes from each of these members: fetches what they have published for the
  // next operation, where they run ahead.
  void fetch_next(RankRange givers, std::size_t bytes) noexcept {
    if (bank_ == SlotBank::ahead && givers.first < givers.end && memory_.members_run_ahead())
      memory_.fetch_slots(NodeSlab::slot_index(number_ + 1, bank_), givers.first, givers.end,
                          bytes);
  }
  // The same with data that this rank has staged.
  void publish_staged() noexcept {
    own().address = staging_.begin;
    publish_slot(MemoryKind::slab);
  }
  // The same with data of a length that the others do not know, which this rank has written to
  // place_for(): in its slot or, longer ones, in its staging. Apart: what they tell of lies where
  // expose_result() said.
  std::byte* place_for(std::size_t bytes) const noexcept {
    return bytes <= node_slot_bytes ? own().data : staging();
  }
  void publish_placed(std::size_t bytes, bool apart = false) noexcept {
    own().address = bytes <= node_slot_bytes ? node_in_slot : staging_.begin;
    publish_slot(apart ? own().result_kind : MemoryKind::slab);
    prefetch_next(bytes);
  }
  void expose_result(const std::byte* data, std::size_t bytes) noexcept {
    std::tie(own().result_kind, own().result_address) = located(data, bytes);
  }
  // The same with data, and a result as long, that others read where they lie, in a Buffer or in
  // private memory: this rank waits until they have.
  void expose(const std::byte* data, std::size_t bytes,
              const std::byte* result = nullptr) noexcept {
    if (result != nullptr) expose_result(result, bytes);
    MemoryKind kind{};
    std::tie(kind, own().address) = located(data, bytes);
    publish_slot(kind);
  }
  void advance(std::uint32_t step) noexcept { memory_.publish(own(), stage(step)); }
  // The same of a rank that may have exposed its data before, and has staged them now. Nobody looks
  // for them in between.
  void advance_staged(std::uint32_t step) noexcept {
    own().address = staging_.begin;
    advance(step);
  }

  // Blocks whose lengths only their two ends know: both note each when the call begins, and what
  // was given so far to a member, or is due from it, has a sum, the same at both ends. 0: another
  // operation has begun meanwhile, and its blocks may be in it.
  void note_gift_to(int rank, std::size_t bytes) noexcept {
    memory_.gifts_to(rank).add(number_, bytes);
  }
  void note_gift_from(int rank, std::size_t bytes) noexcept {
    memory_.gifts_from(rank).add(number_, bytes);
  }
  std::uint16_t gifts_to(int rank) const noexcept {
    return memory_.is_newest(number_) ? memory_.gifts_to(rank).sum() : std::uint16_t{0};
  }
  std::uint16_t gifts_from(int rank) const noexcept {
    return memory_.is_newest(number_) ? memory_.gifts_from(rank).sum() : std::uint16_t{0};
  }

  bool in_arena(const std::byte* data, std::size_t bytes) const noexcept {
    return memory_.offset_in_arena(data, bytes).has_value();
  }
  // Of members that have come.
  bool is_in_arena(int rank) const noexcept {
    return (rank == memory_.rank() ? kind_ : slot_of(rank).data_kind()) == MemoryKind::buffer;
  }
  // After a copy out of a member's Buffer: may it have been written meanwhile?
  bool is_revoked(int rank) const noexcept { return memory_.is_revoked(rank); }
  bool all_in_arena() const noexcept { return count_in_arena() == memory_.size(); }
  bool none_in_arena() const noexcept { return count_in_arena() == 0; }

  // So many bytes that another member has published; it has come.
  const std::byte* published(int rank, std::size_t bytes) const {
    return bytes <= node_slot_bytes ? slot_of(rank).data : staging(rank, 0, bytes);
  }
  bool places_apart(int rank) const noexcept {
    return slot_of(rank).data_kind() != MemoryKind::slab;
  }
  // The bytes from `begin` on of what another member has placed.
  const std::byte* placed(int rank, std::size_t begin, std::size_t bytes) const {
    const NodeSlot& slot = slot_of(rank);
    return slot.address == node_in_slot ? memory_.in_slot(rank, slot, begin, bytes)
                                        : staging(rank, begin, bytes);
  }
  // The bytes from `begin` on of what another member has staged.
  const std::byte* staging(int rank, std::size_t begin, std::size_t bytes) const {
    return memory_.staged(rank, slot_of(rank).address + begin, bytes);
  }
  // Of this rank's own.
  std::byte* staging(std::size_t begin = 0) const noexcept {
    return memory_.own_slab().staging + staging_.begin + begin;
  }
  // The bytes from `begin` on of what a member exposed in a Buffer.
  const std::byte* data_of(int rank, std::size_t begin, std::size_t bytes) const {
    return memory_.data(rank, slot_of(rank).address + begin, bytes);
  }
  const std::byte* result_of(int rank, std::size_t begin, std::size_t bytes) const {
    return memory_.data(rank, slot_of(rank).result_address + begin, bytes);
  }
  // Copies the bytes from `begin` on of what a member exposed. False: the member has revoked it,
  // or is gone.
  bool copy_exposed(int rank, std::byte* target, std::size_t begin, std::size_t bytes) const {
    const NodeSlot& slot = slot_of(rank);
    return copy_out(rank, target, slot.kind, slot.address + begin, bytes);
  }
  bool copy_exposed_result(int rank, std::byte* target, std::size_t begin,
                           std::size_t bytes) const {
    const NodeSlot& slot = slot_of(rank);
    return copy_out(rank, target, slot.result_kind, slot.result_address + begin, bytes);
  }
  // Do members that wait for the same long vector copy it together?
  bool fills_together(std::size_t bytes) const noexcept {
    return memory_.fills_together() && bytes >= base::filled_bytes_min &&
           bytes <= base::filled_bytes_max;
  }
  base::FillShare& broadcast_share() const noexcept { return memory_.broadcast_share(); }
  base::FillShare& gather_share() const noexcept { return memory_.gather_share(); }
  // Before this rank publishes: another member may fill the end of this vector, until it is
  // settled. Returns where that begins, by such a share.
  std::size_t open_to_fill(std::span<std::byte> vector, const base::FillShare& share) noexcept {
    NodeSlot& slot = own();
    slot.target_begin = share.first_bytes(vector.size());
    slot.target = {.address = reinterpret_cast<std::uintptr_t>(vector.data()) + slot.target_begin,
                   .guard_address = reinterpret_cast<std::uintptr_t>(&slot.guard),
                   .number = number_};
    slot.guard.open_for(number_);
    return slot.target_begin;
  }
  // Until nobody fills it any more, whatever becomes of the communicator. What it opened must come
  // to this.
  NodeAwaiter settle_fill(int by, base::FillShare& share) noexcept {
    const auto phase = own().guard.take_back(number_);
    if (phase == transport::FillGuard::done) share.it_was_faster();
    if (phase == transport::FillGuard::begun) share.it_was_awaited();
    return wait_for(NodeWait::For::fill, number_, {by, by + 1});
  }
  // Settled: has the other one filled it?
  bool is_filled() const noexcept {
    return own().guard.phase_of(number_) == transport::FillGuard::done;
  }
  // The end of the vector, of a member that has come, if it has not settled meanwhile.
  void fill(int rank, std::span<const std::byte> vector) const noexcept {
    NodeSlot& slot = slot_of(rank);
    if (slot.target_begin <= vector.size())
      memory_.fill(rank, slot, vector.subspan(slot.target_begin));
  }

 private:
  NodeSlot& own() const noexcept { return memory_.own_slab().slot(number_, bank_); }
  std::uint64_t stage(std::uint32_t step) const noexcept { return node_stage(number_, step); }
  std::uint32_t slot_index() const noexcept { return NodeSlab::slot_index(number_, bank_); }
  NodeSlot& slot_of(int rank) const noexcept { return memory_.slab(rank).slot(number_, bank_); }
  std::pair<MemoryKind, std::uint64_t> located(const std::byte* data,
                                               std::size_t bytes) const noexcept {
    if (const auto offset = memory_.offset_in_arena(data, bytes))
      return {MemoryKind::buffer, *offset};
    return {MemoryKind::process, reinterpret_cast<std::uintptr_t>(data)};
  }
  bool copy_out(int rank, std::byte* target, MemoryKind kind, std::uint64_t address,
                std::size_t bytes) const {
    if (bytes == 0) return true;
    if (kind != MemoryKind::buffer) return memory_.copy_private(rank, target, address, bytes);
    base::copy_bytes(target, memory_.data(rank, address, bytes), bytes);
    return !is_revoked(rank);
  }
  void publish_slot(MemoryKind kind) noexcept {
    NodeSlot& slot = own();
    slot.put_kind(kind_ = kind);
    memory_.own_words().name_call(slot, call_);
    memory_.publish(slot, stage(1));
  }
  int count_in_arena() const noexcept {
    int count = 0;
    for (int rank = 0; rank < memory_.size(); ++rank) count += is_in_arena(rank) ? 1 : 0;
    return count;
  }
  NodeAwaiter all_done(std::uint64_t done) noexcept {
    return wait_for(NodeWait::For::end, done, {0, memory_.size()});
  }
  NodeAwaiter wait_for(NodeWait::For what, std::uint64_t stage, RankRange who) noexcept {
    return {memory_, what, slot_index(), stage, call_, who};
  }

  NodeMemory& memory_;
  std::uint64_t call_;
  std::uint64_t number_;
  StagingRing::Part staging_{};
  SlotBank bank_;
  MemoryKind kind_ = MemoryKind::slab;  // what this rank published
  bool ends_ = true;                    // here, not in another one
};

// The operands of a reduction in rank order: where_of(rank) for the other members, and this rank's
// own where the caller keeps it: what it published would have to be fetched back from those who
// read it.
using Operands = std::array<const std::byte*, node_ranks_max>;
template <class WhereOf>
std::span<const std::byte* const> operands_in_rank_order(Operands& operands, const Group& group,
                                                         const std::byte* own, WhereOf&& where_of) {
  const int size = group.size();
  for (int rank = 0; rank < size; ++rank)
    operands[static_cast<std::size_t>(rank)] = rank == group.rank() ? own : where_of(rank);
  return {operands.data(), static_cast<std::size_t>(size)};
}

// target = the same operands, combined. A function: the list of them stays out of a task's frame.
template <class WhereOf>
void reduce_in_rank_order(const Group& group, const Reducer& reducer, std::byte* target,
                          const std::byte* own, std::size_t bytes, WhereOf&& where_of) {
  Operands operands;
  group.reduce(reducer, target, operands_in_rank_order(operands, group, own, where_of), bytes);
}

// The operands of a scan: of the ranks before this one, of which there is one, and then its own;
// nullptr: without it.
template <class WhereOf>
std::span<const std::byte* const> operands_before(Operands& operands, const Group& group,
                                                  const std::byte* own, WhereOf&& where_of) {
  std::size_t count = 0;
  for (int rank = 0; rank < group.rank(); ++rank) operands[count++] = where_of(rank);
  if (own != nullptr) operands[count++] = own;
  return {operands.data(), count};
}

// target = the operands, combined; one alone is copied.
inline void combine(const Group& group, const Reducer& reducer, std::byte* target,
                    std::span<const std::byte* const> operands, std::size_t bytes) {
  if (operands.size() == 1) group.copy(target, operands.front(), bytes);
  else group.reduce(reducer, target, operands, bytes);
}

template <class WhereOf>
void reduce_before(const Group& group, const Reducer& reducer, std::byte* target,
                   const std::byte* own, std::size_t bytes, WhereOf&& where_of) {
  Operands operands;
  combine(group, reducer, target, operands_before(operands, group, own, where_of), bytes);
}

}  // namespace qpmesh::collectives
