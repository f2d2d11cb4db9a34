// SPDX-License-Identifier: MIT
// What a rank knows of the memory of a rank of its node, itself included. One shape: connections,
// messaging and the collectives of a node all look at this one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/atomics.hpp"
#include "base/fill_guard.hpp"
#include "base/owned.hpp"
#include "base/process_memory.hpp"
#include "base/system.hpp"
#include "transport/memory.hpp"

namespace qpmesh::transport {

using FillGuard = base::FillGuard<base::ProcessAtomics>;
using base::FillTarget;

// Made at start-up, read by everybody, never changed: the memory changes, not where it is.
class Neighbour {
 public:
  // A peer that proved to share memory with us: maps its arena, whose descriptor may be closed
  // afterwards. private_memory: where it and we copy each other's. Throws Error{no_resource}.
  Neighbour(const base::System& system, int arena_fd, std::size_t arena_bytes,
            base::UniqueFd doorbell, base::ProcessMemory private_memory = {});
  // A rank of this process, whose arena is mapped. Does not own the doorbell; -1: nobody sleeps.
  explicit Neighbour(const Arena& arena, int doorbell = -1) noexcept
      : Neighbour{{arena.data(), arena.bytes()}, arena.header().asleep, doorbell} {}
  Neighbour(std::span<std::byte> arena, const base::Asleep& asleep, int doorbell) noexcept
      : arena_{arena.data()}, arena_bytes_{arena.size()}, asleep_{&asleep}, doorbell_{doorbell} {}
  Neighbour(Neighbour&&) noexcept = default;
  Neighbour& operator=(Neighbour&&) = delete;
  virtual ~Neighbour() = default;  // simulated ranks copy in another way

  std::size_t arena_bytes() const noexcept { return arena_bytes_; }
  // In its arena. Total: nullptr for what does not lie there.
  std::byte* at(std::uint64_t offset, std::size_t bytes) const noexcept {
    const bool inside = offset <= arena_bytes_ && bytes <= arena_bytes_ - offset;
    return inside ? arena_ + offset : nullptr;
  }
  // The inverse, for addresses of this process.
  std::optional<std::uint64_t> offset_of(const void* data, std::size_t bytes) const noexcept {
    const auto offset =
        reinterpret_cast<std::uintptr_t>(data) - reinterpret_cast<std::uintptr_t>(arena_);
    if (offset >= arena_bytes_ || bytes > arena_bytes_ - offset) return std::nullopt;
    return offset;
  }

  // After a flag was stored there, sequentially consistent: rings where the rank sleeps.
  void wake_if_asleep() const noexcept {
    if (asleep_->is_set()) [[unlikely]]
      ring(doorbell_);
  }
  // The one place where an eventfd is rung. From any thread.
  static void ring(int doorbell) noexcept;

  // Its private memory. May both ends copy each other's?
  virtual bool copies_private() const noexcept { return private_memory_.is_known(); }
  // 0, or the errno: ESRCH where the rank is gone. Then target holds anything. Whether the bytes
  // are still what they were offered as is the caller's to know.
  virtual int copy_private(std::byte* target, std::uint64_t address,
                           std::size_t bytes) const noexcept {
    return private_memory_.copy(target, address, bytes);
  }
  // May it fill ours and we its? Where a word is seen behind the data.
  bool fills_private() const noexcept {
    return copies_private() && base::ProcessMemory::stores_in_order;
  }
  // Copies into memory that the rank lets us fill. False: it or the system does not, and it knows.
  virtual bool fill(FillGuard& guard, const FillTarget& target,
                    std::span<const std::byte> source) const noexcept;
  // The process has ended, with all its threads: it fills nothing any more. Never blocks.
  virtual bool has_ended() const noexcept { return private_memory_.has_ended(); }

 private:
  base::Mapping mapping_;  // of a peer
  base::UniqueFd own_doorbell_;
  std::byte* arena_;  // as mapped here
  std::size_t arena_bytes_;
  const base::Asleep* asleep_;  // in its header
  int doorbell_;
  base::ProcessMemory private_memory_;
};

}  // namespace qpmesh::transport
