// SPDX-License-Identifier: MIT
// The words that the members of a node share, the data behind them, and the order in which both are
// written and read. Templates over their atomics: tests/explore runs them in every interleaving.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/atomics.hpp"
#include "base/cpu.hpp"
#include "base/fill_guard.hpp"

namespace qpmesh::collectives {

inline constexpr std::size_t node_slot_bytes = 1024;  // of data beside the flag
// Operations of one communicator that may be in flight: so far may a rank that only gives run ahead
// of those that take.
inline constexpr std::uint32_t node_slot_count = 64;

// In which slots an operation publishes: fixed by the algorithm, which all members choose alike.
enum class SlotBank : std::uint8_t {
  // Some members only give, and run ahead. Slots lie at equal distances: the processor of who reads
  // them one after another fetches the next ones early.
  ahead,
  // As a rule all members give and take. The next slot is still to be written: who fetches it early
  // takes it out of its owner's cache, and an exchange of two lines takes twice as long. So
  // consecutive operations have slots of the first half and of the second by turns, and no load
  // comes to equal distances (Intel's optimization manual: a stride prefetcher for each load, up to
  // 2 KiB).
  together,
};

// A rank takes the lines of its slot back from the members that read them last, so many operations
// ahead. That lasts as long as a line takes from core to core. Who only gives waits for nobody:
// each of its stores of a stage would last so long. Who also takes has the time while it waits, and
// publishes in the next slot. A multiple of 2, 4, 8 and 16: of so many roots in turn, the one that
// gives now gives again then.
constexpr std::uint32_t slots_fetched_ahead(SlotBank bank) noexcept {
  return bank == SlotBank::ahead ? 16 : 1;
}

// The address of data that lie in the slot, where their readers do not know how long they are.
inline constexpr std::uint64_t node_in_slot = ~std::uint64_t{0};

// Whose memory it is where data lie that a rank has for the others.
enum class MemoryKind : std::uint32_t {
  slab,    // the slot itself, or the owner's staging
  buffer,  // in the owner's arena
  process  // its private memory: ProcessMemory copies them
};

// Where an operation stands at one rank. Written by the owner, read by all members.
//
// An odd number of pairs of lines long: the flags of all slots lie in half of the sets of a cache.
// Of a power of two they would lie in a few, and fall out of them while the slots are gone round.
template <class Atomics>
struct alignas(128) NodeSlotWords {
  // The operation's number plus one, and its step (node_stage). Stored last: releases the fields
  // below and the data. Sequentially consistent, so that sleepers are woken as by the flag of a
  // record. Equality of numbers is enough: a member cannot come to the next operation of this slot
  // before we have finished this one.
  std::uint64_t stage;
  // The collective's number in the communicator, and in the upper half what every rank must call
  // alike. Read by members that do not wait for this operation, too.
  std::uint64_t call;
  // As NodeWords::done, when this was published: saves looking there. A member that sees an earlier
  // stage may read it too.
  std::uint32_t done;
  MemoryKind kind;  // of the data
  // Of the data: offset in the owner's staging or arena, or address in its process.
  std::uint64_t address;
  // Reductions are applied to it where it lies: aligned as elements of the caller's may be.
  alignas(16) std::byte data[node_slot_bytes];
  // Of a result that others will read: behind the data, so that small ones share the line of the
  // stage.
  std::uint64_t result_address;
  MemoryKind result_kind;
  // Private memory that another member may fill: addresses in the owner's process.
  alignas(base::cache_line_bytes) base::FillGuard<Atomics> guard;
  base::FillTarget target;
  std::uint64_t target_begin;  // in the vector; to its end

  // As new, but for the data, which are written before they are read.
  void clear() noexcept {
    auto* const begin = reinterpret_cast<std::byte*>(this);
    auto* const end = reinterpret_cast<std::byte*>(this + 1);
    std::byte* const behind_data = data + node_slot_bytes;
    Atomics::clear(begin, static_cast<std::size_t>(data - begin));
    Atomics::clear(behind_data, static_cast<std::size_t>(end - behind_data));
  }
  void put(std::span<const std::byte> bytes) noexcept {
    if (!bytes.empty()) Atomics::copy(data, bytes.data(), bytes.size());
  }
  void put_kind(MemoryKind of_data) noexcept { Atomics::store_plain(&kind, of_data); }
  MemoryKind data_kind() const noexcept { return Atomics::load_plain(&kind); }
};

// One member's; all map it, and only the owner writes it, but for a guard.
template <class Atomics, std::uint32_t slot_count = node_slot_count>
struct NodeWords {
  using Slot = NodeSlotWords<Atomics>;

  // The low half of a count (whole_count): so many operations, the first ones without a hole, are
  // finished here, and nothing of a peer's is read for them any more.
  alignas(128) std::uint32_t done;
  // Changed: the communicator has failed here, and its Buffers and private memory may be their
  // owner's again.
  base::RevocationCount<Atomics> revocations;
  // That uses this slab here. Another one, or 0: the owner reads nothing of the members of the one
  // before any more.
  std::uint64_t communicator;
  Slot slots[2 * slot_count];  // one bank behind the other

  // As new, for another communicator: nobody reads it any more, and its owner has left the one
  // before. operation_count: so many it has begun there; it wrote no slots of later ones.
  void clear(std::uint64_t operation_count) noexcept {
    Atomics::store_relaxed(&done, std::uint32_t{0});
    Atomics::store_relaxed(&revocations.word, std::uint32_t{0});
    for (std::uint64_t number = 0; number < operation_count && number < slot_count; ++number) {
      slot(number, SlotBank::ahead).clear();
      slot(number, SlotBank::together).clear();
    }
  }

  // A slot is written again when every member has finished the operation that used it before.
  Slot& slot(std::uint64_t number, SlotBank bank) noexcept {
    return slots[slot_index(number, bank)];
  }
  static constexpr std::uint32_t slot_index(std::uint64_t number, SlotBank bank) noexcept {
    const auto turn = static_cast<std::uint32_t>(number % slot_count);
    if (bank == SlotBank::ahead) return turn;
    return slot_count + turn / 2 + turn % 2 * ((slot_count + 1) / 2);
  }
};

// Numbers of operations never come again here. Of a stage the number's upper bits are dropped.
inline constexpr int node_step_bits = 24;
inline constexpr std::uint32_t node_step_max = (1U << node_step_bits) - 1;
constexpr std::uint64_t node_stage(std::uint64_t number, std::uint32_t step) noexcept {
  assert(step <= node_step_max);
  return (number + 1) << node_step_bits | step;
}
// NodeSlotWords::call.
constexpr std::uint64_t node_call(std::uint32_t operation, std::uint32_t signature) noexcept {
  return std::uint64_t{signature} << 32 | operation;
}
constexpr bool has_reached(std::uint64_t done, std::uint64_t target) noexcept {
  return static_cast<std::int64_t>(done - target) >= 0;  // the first operations wait for none
}
// The count of operations whose low half a member tells. `near`: a count of this rank's, of now.
// Members whose steps are awaited are never further apart than they have slots; others, which only
// make calls without a block for them, less than 2^31 operations. What this rank learnt of one may
// be older than any number of operations: so no low halves are kept.
constexpr std::uint64_t whole_count(std::uint32_t low, std::uint64_t near) noexcept {
  const auto ahead = static_cast<std::int32_t>(low - static_cast<std::uint32_t>(near));
  return near + static_cast<std::uint64_t>(std::int64_t{ahead});
}

// What this rank says of itself.
template <class Atomics, std::uint32_t slot_count = node_slot_count>
class OwnNodeWords {
 public:
  using Words = NodeWords<Atomics, slot_count>;
  using Slot = typename Words::Slot;

  OwnNodeWords() = default;  // of nobody
  explicit OwnNodeWords(Words& words) noexcept : words_{&words} {}

  Words& words() const noexcept { return *words_; }
  // Before members learn where the slab lies.
  void enter(std::uint64_t communicator) noexcept {
    Atomics::store_relaxed(&words_->communicator, communicator);
  }
  // After our last load of anything of the members'.
  void leave() noexcept { Atomics::store_release(&words_->communicator, std::uint64_t{0}); }
  std::uint64_t done() const noexcept { return done_; }
  // Several operations may be in flight, and end in any order.
  void end(std::uint64_t number) noexcept {
    const std::uint64_t ahead = number - done_;
    // It never waited for its slot, or for its own earlier ends, and ends by an error: so does the
    // communicator.
    if (ahead > 64) return;
    if (ahead != 0) {
      finished_beyond_ |= std::uint64_t{1} << (ahead - 1);
      return;
    }
    ++done_;
    for (; (finished_beyond_ & 1) != 0; finished_beyond_ >>= 1) ++done_;
    finished_beyond_ >>= 1;
    // After our last load of the members' data.
    Atomics::store_release(&words_->done, static_cast<std::uint32_t>(done_));
  }
  void name_call(Slot& slot, std::uint64_t call) noexcept {
    Atomics::store_relaxed(&slot.call, call);
  }
  // Everything before is seen by who sees the stage. Sleepers are woken by the caller.
  void publish(Slot& slot, std::uint64_t stage) noexcept {
    // After our last load of the members' data.
    Atomics::store_release(&slot.done, static_cast<std::uint32_t>(done_));
    Atomics::store_seq_cst(&slot.stage, stage);
  }

 private:
  Words* words_ = nullptr;
  std::uint64_t done_ = 0;
  std::uint64_t finished_beyond_ = 0;  // bit i: operation done_ + 1 + i
};

// What this rank knows of another member.
template <class Atomics, std::uint32_t slot_count = node_slot_count>
class MemberNodeWords {
 public:
  using Words = NodeWords<Atomics, slot_count>;
  using Slot = typename Words::Slot;

  explicit MemberNodeWords(Words& words) noexcept : words_{&words} {}

  Words& words() const noexcept { return *words_; }
  // Has it come to this step of the slot's operation? If it has, what it published is visible, and
  // call is what it called. own_done: OwnNodeWords::done.
  bool has_come(const Slot& slot, std::uint64_t stage, std::uint64_t own_done,
                std::uint64_t& call) noexcept {
    const std::uint64_t seen = Atomics::load_acquire(&slot.stage);
    if (seen >> node_step_bits != stage >> node_step_bits || seen < stage) return false;
    const std::uint64_t done = whole_count(Atomics::load_acquire(&slot.done), own_done);
    if (!has_reached(known_done_, done)) known_done_ = done;
    call = Atomics::load_relaxed(&slot.call);
    return true;
  }
  // The same, or has it ended the operation without? Then it never comes, and call stays as it is:
  // what it publishes for an operation it does before it ends.
  bool has_come_or_ended(const Slot& slot, std::uint64_t stage, std::uint64_t own_done,
                         std::uint64_t& call) noexcept {
    if (has_come(slot, stage, own_done, call)) return true;
    const auto number = static_cast<std::uint32_t>(stage >> node_step_bits);
    if (!is_done(whole_count(number, own_done), own_done)) return false;
    has_come(slot, stage, own_done, call);  // since the first look, if at all
    return true;
  }
  // Has it finished so many operations? What it read for them may be written.
  bool is_done(std::uint64_t target, std::uint64_t own_done) noexcept {
    if (has_reached(known_done_, target)) return true;
    known_done_ = whole_count(Atomics::load_acquire(&words_->done), own_done);
    return has_reached(known_done_, target);
  }
  std::uint64_t known_done() const noexcept { return known_done_; }
  // Has it left the communicator? Then what it read of ours may be written.
  bool has_left(std::uint64_t communicator) const noexcept {
    return Atomics::load_acquire(&words_->communicator) != communicator;
  }
  // What it called, if it has used the slot.
  bool has_called(const Slot& slot, std::uint64_t& call) const noexcept {
    if (Atomics::load_acquire(&slot.stage) == 0) return false;
    call = Atomics::load_relaxed(&slot.call);
    return true;
  }

 private:
  Words* words_;
  std::uint64_t known_done_ = 0;
};

}  // namespace qpmesh::collectives
