// SPDX-License-Identifier: MIT
// Tensors in memory that the other ranks of the host reach without a copy.
#pragma once

#include <ATen/ops/from_blob.h>
#include <c10/core/CPUAllocator.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "group.hpp"

namespace qpmesh_torch {

// The pieces of groups' memory that are in use, by address: torch has raw memory, too, of which a
// deleter is told nothing else.
class Pieces {
 public:
  void add(void* data, std::shared_ptr<Group> group) {
    const std::lock_guard lock{mutex_};
    groups_.emplace(data, std::move(group));
  }
  // Null: it is none of them.
  std::shared_ptr<Group> remove(void* data) {
    const std::lock_guard lock{mutex_};
    const auto node = groups_.extract(data);
    return node.empty() ? nullptr : std::move(node.mapped());
  }

 private:
  std::mutex mutex_;
  std::unordered_map<void*, std::shared_ptr<Group>> groups_;
};

inline Pieces& pieces() {
  static Pieces* const all = new Pieces;  // tensors go later than what is static
  return *all;
}

// False: it is none of ours.
inline bool free_piece(void* data) {
  const std::shared_ptr<Group> group = pieces().remove(data);
  if (group == nullptr) return false;
  qpmesh_free(group->handle(), data);
  group->memory_ends();
  return true;
}

// Null: there is no more.
inline void* allocate_piece(const std::shared_ptr<Group>& group, std::size_t bytes) {
  static const Doing doing{"empty", 0, nullptr};
  void* data = nullptr;
  const int code = qpmesh_allocate_here(group->communicator(doing), bytes, &data);
  if (code != QPMESH_OK) return nullptr;
  group->memory_begins();
  pieces().add(data, group);
  return data;
}

inline c10::Allocator* torchs_own = nullptr;  // from when ours is in front of it

inline void free_any(void* data) {
  if (!free_piece(data)) torchs_own->raw_deleter()(data);
}

// In front of torch's own.
class GroupAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    std::shared_ptr<Group> group;
    {
      const std::lock_guard lock{mutex_};
      if (bytes >= bytes_min_ && bytes > 0) group = group_;
    }
    if (group != nullptr) {
      if (void* const data = allocate_piece(group, bytes))
        return {data, data, free_any, c10::Device{c10::DeviceType::CPU}};
    }
    return torchs_own->allocate(bytes);
  }

  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return torchs_own->raw_deleter() != nullptr ? free_any : nullptr;
  }

  void use(std::shared_ptr<Group> group, std::size_t bytes_min) {
    const std::lock_guard lock{mutex_};
    group_.swap(group);
    bytes_min_ = bytes_min;
  }

 private:
  std::mutex mutex_;
  std::shared_ptr<Group> group_;
  std::size_t bytes_min_ = 0;
};

// So many bytes, all zero. They hold the group's memory until their last user goes.
inline at::Tensor empty_bytes(const std::shared_ptr<Group>& group, std::int64_t bytes) {
  const Doing doing{"empty", 0, &group->name()};
  if (bytes < 0) bad_argument(doing, std::to_string(bytes) + " bytes", "give 0 or more");
  void* const piece = allocate_piece(group, static_cast<std::size_t>(bytes));
  if (piece == nullptr) throw_last_error(doing);
  return at::from_blob(
      piece, {bytes}, [](void* data) { free_piece(data); }, at::TensorOptions{at::kByte});
}

// From here on torch's own tensors of the host, if they have so many bytes at least, lie there too,
// in all threads of the process; null: no more. What does not fit lies where it would otherwise.
inline void set_memory(std::shared_ptr<Group> group, std::int64_t bytes_min) {
  // torch asks whoever was set last. Ours stays, and hands on what it is not asked to take: raw
  // memory may be given back when no group is used any more, and only ours knows whose it is.
  static GroupAllocator* const ours = [] {
    torchs_own = c10::GetCPUAllocator();
    auto* made = new GroupAllocator;
    c10::SetCPUAllocator(made);
    return made;
  }();
  ours->use(std::move(group), static_cast<std::size_t>(bytes_min));
}

}  // namespace qpmesh_torch
