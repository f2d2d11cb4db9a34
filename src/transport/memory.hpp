// SPDX-License-Identifier: MIT
// A rank's arena: the one sparse memory it shares. Control line, rings, staging and Buffers are
// carved from it, so that a peer maps (or registers) it once and no descriptor travels later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "base/atomics.hpp"
#include "base/bytes.hpp"
#include "base/owned.hpp"
#include "base/system.hpp"

namespace qpmesh::transport {

// At offset 0 of every arena.
struct alignas(128) ArenaHeader {
  std::uint64_t nonce;  // proves that a mapping is this arena
  base::Asleep asleep;  // set while the owner sleeps
  // Of memory that the owner has offered for loading, and that goes back to the user.
  base::Revocations revocations;
};

class Arena {
 public:
  // Cache lines are prefetched in pairs: two writers never share one.
  static constexpr std::size_t alignment = 128;
  static constexpr std::size_t first_offset = base::round_up(sizeof(ArenaHeader), alignment);

  // A sparse memfd, sealed against resizing. Throws Error{no_resource} naming limit and need.
  static Arena create_shared(const base::System& system, std::size_t bytes);
  // Private memory, for the simulator: lazily touched, so that hundreds fit in one process.
  static Arena create_private(const base::System& system, std::size_t bytes);

  ArenaHeader& header() const noexcept { return *reinterpret_cast<ArenaHeader*>(mapping_.data()); }
  std::byte* data() const noexcept { return mapping_.data(); }
  std::size_t bytes() const noexcept { return mapping_.bytes(); }
  int descriptor() const noexcept { return fd_.get(); }

  // Memory that is as long begins with such a page where there is room, and may lie in such pages.
  static constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;

  // Is there room in a new one of arena_bytes for a first allocation?
  static constexpr bool has_room(std::size_t arena_bytes, std::size_t bytes) noexcept {
    return arena_bytes >= first_offset &&
           bytes <= (arena_bytes - first_offset) / alignment * alignment;
  }
  // Offset of zeroed memory, first fit; nothing when the arena is full.
  std::optional<std::uint64_t> allocate(std::size_t bytes);
  // Gives the pages back to the system at once.
  void free(std::uint64_t offset, std::size_t bytes) noexcept;

  // Given out, but no pages yet: what touching all of it would still take.
  std::uint64_t untouched_bytes() const noexcept;

  bool contains(const void* address, std::size_t bytes) const noexcept {
    const std::uint64_t offset = offset_of(address);  // beyond all lengths where it lies before
    return offset <= mapping_.bytes() && bytes <= mapping_.bytes() - offset;
  }
  std::uint64_t offset_of(const void* address) const noexcept {
    return reinterpret_cast<std::uintptr_t>(address) -
           reinterpret_cast<std::uintptr_t>(mapping_.data());
  }

 private:
  Arena(base::UniqueFd fd, base::Mapping mapping);

  std::optional<std::uint64_t> take(std::size_t bytes, std::size_t aligned_to);

  base::UniqueFd fd_;
  base::Mapping mapping_;
  std::map<std::uint64_t, std::uint64_t> free_;  // offset → bytes; neighbours are merged
  std::uint64_t given_bytes_ = 0;
};

// Where the whole pages of a range begin and end; at one place where it has none. A page has 4 KiB
// on x86-64, on arm64 4, 16 or 64 as the kernel was built.
std::pair<std::uint64_t, std::uint64_t> whole_pages(std::uint64_t offset, std::uint64_t bytes,
                                                    std::uint64_t page_bytes) noexcept;

// Takes the pages of memory now instead of at its first use; only advice, since Linux 5.14.
void populate(std::byte* data, std::size_t bytes) noexcept;

// Maps an arena, a peer's or our own; -1: private memory. Throws Error{no_resource}.
base::Mapping map_arena(const base::System& system, int descriptor, std::size_t bytes);

}  // namespace qpmesh::transport
