// What does an algorithm's steps: the library's messaging and this processor, or a model of both
// (bench/scale). An algorithm touches memory through it alone, so that its text runs at sizes whose
// vectors no machine could hold.
#pragma once

#include <cstddef>
#include <span>

#include "collectives/kernels/reducer.hpp"
#include "messaging/operations.hpp"

namespace qpmesh::collectives {

class Machine {
 public:
  virtual ~Machine() = default;

  // May end the operation before it returns.
  virtual void start(messaging::SendOperation& send) noexcept = 0;
  virtual void start(messaging::ReceiveOperation& receive) noexcept = 0;

  virtual std::byte* allocate(
      std::size_t bytes) = 0;  // 16-byte aligned, uninitialised; throws std::bad_alloc
  virtual void free(std::byte* memory) noexcept = 0;
  virtual void copy(std::byte* target, const std::byte* source, std::size_t bytes) = 0;
  virtual void reduce(const Reducer& reducer, std::byte* target,
                      std::span<const std::byte* const> sources, std::size_t bytes) = 0;
};

}  // namespace qpmesh::collectives
