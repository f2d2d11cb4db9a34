// SPDX-License-Identifier: MIT
#pragma once

#include "base/cpu_copy.hpp"
#include "collectives/group.hpp"
#include "messaging/messaging.hpp"
#include "progress/frame_pool.hpp"

namespace qpmesh::collectives {

// This rank as it is.
class RealMachine final : public Machine {
 public:
  RealMachine(messaging::Messaging& messaging, progress::FramePool& pool) noexcept
      : messaging_{messaging}, pool_{pool} {}

  void start(messaging::SendOperation& send) noexcept override { messaging_.start(send); }
  void start(messaging::ReceiveOperation& receive) noexcept override { messaging_.start(receive); }
  bool comes_whole(const messaging::ReceiveOperation& receive) const noexcept override {
    return messaging_.comes_whole(receive);
  }
  std::byte* allocate(std::size_t bytes) override {
    return static_cast<std::byte*>(pool_.allocate(bytes));
  }
  void free(std::byte* memory) noexcept override { progress::FramePool::free(memory); }
  void copy(std::byte* target, const std::byte* source, std::size_t bytes) override {
    if (target != source) base::copy_bytes(target, source, bytes);
  }
  void copy_streaming(std::byte* target, const std::byte* source, std::size_t bytes) override {
    base::copy_streaming(target, source, bytes);
  }
  void reduce(const Reducer& reducer, std::byte* target, std::span<const std::byte* const> sources,
              std::size_t bytes) override {
    reducer(target, sources, bytes);
  }

 private:
  messaging::Messaging& messaging_;
  progress::FramePool& pool_;
};

}  // namespace qpmesh::collectives
