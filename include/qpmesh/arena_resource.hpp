// SPDX-License-Identifier: MIT
// Containers whose memory peers can reach without a copy.
#pragma once

#include <cstddef>
#include <memory>
#include <memory_resource>

#include "qpmesh/communicator.hpp"
#include "qpmesh/export.h"

namespace qpmesh {

// A std::pmr::memory_resource over Communicator::allocate_here: std::pmr::vector<float> v{n,
// &resource}. It outlives what is allocated from it, and keeps the context's memory alive. Each
// allocation takes whole pages and a call of the system: for many small ones put a
// std::pmr::unsynchronized_pool_resource before it. One thread at a time, as for the context.
// Throws Error{no_resource} where the arena is full, Error{bad_argument} for an alignment beyond
// 128 bytes.
class QPMESH_API ArenaResource final : public std::pmr::memory_resource {
 public:
  // In the arena of this rank, in the communicator's context.
  explicit ArenaResource(const Communicator& communicator);
  ~ArenaResource() override;
  ArenaResource(const ArenaResource&) = delete;
  ArenaResource& operator=(const ArenaResource&) = delete;

 private:
  struct Allocated;

  void* do_allocate(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(void* data, std::size_t bytes, std::size_t alignment) override;
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }

  std::unique_ptr<Allocated> allocated_;
};

}  // namespace qpmesh
