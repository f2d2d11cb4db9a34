#include "torch/memory.hpp"

#include <ATen/ops/from_blob.h>
#include <c10/core/CPUAllocator.h>

#include <mutex>

namespace qpmesh_torch {
namespace {

// One piece of a group's memory.
struct Piece {
  std::shared_ptr<Group> group;
  void* data;
};

void free_piece(void* context) {
  const std::unique_ptr<Piece> piece{static_cast<Piece*>(context)};
  qpmesh_free(piece->group->handle(), piece->data);
  piece->group->memory_ends();
}

// Null: there is no more.
std::unique_ptr<Piece> allocate_piece(const std::shared_ptr<Group>& group, std::size_t bytes) {
  static const Doing doing{"empty", 0, nullptr};
  void* data = nullptr;
  const int code = qpmesh_allocate_here(group->communicator(doing), bytes, &data);
  if (code != QPMESH_OK) return nullptr;
  group->memory_begins();
  return std::make_unique<Piece>(Piece{group, data});
}

// In front of torch's own.
class GroupAllocator final : public c10::Allocator {
 public:
  explicit GroupAllocator(c10::Allocator* others) : others_{others} {}

  c10::DataPtr allocate(std::size_t bytes) const override {
    std::shared_ptr<Group> group;
    {
      const std::lock_guard lock{mutex_};
      if (bytes >= bytes_min_) group = group_;
    }
    if (group != nullptr) {
      if (auto piece = allocate_piece(group, bytes)) {
        void* const data = piece->data;
        return {data, piece.release(), free_piece, c10::Device{c10::DeviceType::CPU}};
      }
    }
    return others_->allocate(bytes);
  }

  void use(std::shared_ptr<Group> group, std::size_t bytes_min) {
    const std::lock_guard lock{mutex_};
    group_.swap(group);
    bytes_min_ = bytes_min;
  }

 private:
  c10::Allocator* const others_;
  mutable std::mutex mutex_;
  std::shared_ptr<Group> group_;
  std::size_t bytes_min_ = 0;
};

}  // namespace

at::Tensor empty_bytes(const std::shared_ptr<Group>& group, std::int64_t bytes) {
  const Doing doing{"empty", 0, &group->name()};
  if (bytes < 0) bad_argument(doing, std::to_string(bytes) + " bytes", "give 0 or more");
  auto piece = allocate_piece(group, static_cast<std::size_t>(bytes));
  if (piece == nullptr) throw_last_error(doing);
  Piece* const held = piece.release();
  return at::from_blob(
      held->data, {bytes}, [held](void*) { free_piece(held); }, at::TensorOptions{at::kByte});
}

void set_memory(std::shared_ptr<Group> group, std::int64_t bytes_min) {
  // torch asks whoever was set last; ours stays, and hands on what it is not asked to take.
  static GroupAllocator* const ours = [] {
    auto* made = new GroupAllocator{c10::GetCPUAllocator()};
    c10::SetCPUAllocator(made);
    return made;
  }();
  ours->use(std::move(group), static_cast<std::size_t>(bytes_min));
}

}  // namespace qpmesh_torch
