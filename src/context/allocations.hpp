// SPDX-License-Identifier: MIT
// The Buffers of a context: memory in this rank's arena that has an owner, and that devices may
// know.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "context/parts.hpp"
#include "progress/wait.hpp"

namespace qpmesh::context {

struct Allocations;

// Memory of one Communicator::allocate, in this rank's arena. Freed with its last owner: Buffers,
// and operations that use it.
class Allocation {
 public:
  Allocation(std::shared_ptr<Allocations> all, std::uint64_t offset, std::size_t bytes) noexcept
      : all_{std::move(all)}, offset_{offset}, bytes_{bytes} {}
  ~Allocation();
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;

  std::byte* data() const noexcept;
  // Opens it to the devices, which may touch all of it.
  void register_with_devices();
  // Of the same call on each rank, by rank, where this process sees it; nullptr where not. Empty:
  // the others have none.
  std::span<const std::byte* const> views() const noexcept { return views_; }
  void know_views(std::vector<const std::byte*> views) noexcept { views_ = std::move(views); }

 private:
  std::shared_ptr<Allocations> all_;  // keeps its context alive
  std::uint64_t offset_;
  std::size_t bytes_;
  std::vector<const std::byte*> views_{};
  std::vector<std::pair<transport::Transport*, std::uint32_t>> regions_;  // where devices know it
};

struct Allocations {
  // Zeroed. nullptr: the arena has not so much in one piece. self: of this object.
  static std::shared_ptr<Allocation> allocate(const std::shared_ptr<Allocations>& self,
                                              std::size_t bytes);
  // Cheap: may a Buffer hold this address?
  bool may_hold(const void* address) const noexcept { return parts.arena->contains(address, 1); }
  // The owner of the memory at this address, when it is a Buffer's.
  std::shared_ptr<Allocation> at(const void* address) const;

  const ContextParts& parts;
  progress::Waiter& waiter;  // whose turn it is, where several threads use the context
  std::map<std::uint64_t, std::weak_ptr<Allocation>> by_offset{};
  bool registration_failed = false;  // and was warned of
};

}  // namespace qpmesh::context
