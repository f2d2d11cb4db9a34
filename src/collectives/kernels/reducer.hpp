// One reduction of one call: a kernel of the library, or a user's function.
#pragma once

#include <cstddef>
#include <exception>
#include <span>

#include "collectives/kernels/reduce.hpp"

namespace qpmesh::collectives {

// What a user's function threw, on its way to the call that brought the function.
struct UserFailure {
  std::exception_ptr cause;
};

// Trivially destructible: it lies in the frames of tasks.
struct Reducer {
  ReduceKernel kernel = nullptr;  // nullptr: a user's function
  void (*function)(const void* context, const void* left, void* inout,
                   std::size_t element_count) = nullptr;
  const void* context = nullptr;
  std::size_t element_bytes = 0;
  bool commutative = true;  // false: operands are combined in rank order

  // May it be applied to parts of a message as they arrive? A user's function may throw, and its
  // elements have any length.
  bool streams() const noexcept { return kernel != nullptr; }

  // target = sources[0] op sources[1] op …; target may be one of them. Throws UserFailure.
  void operator()(std::byte* target, std::span<const std::byte* const> sources,
                  std::size_t bytes) const {
    if (kernel != nullptr) {
      kernel(target, sources.data(), static_cast<int>(sources.size()), bytes);
    } else {
      apply_function(target, sources, bytes);
    }
  }

 private:
  void apply_function(std::byte* target, std::span<const std::byte* const> sources,
                      std::size_t bytes) const;
};

}  // namespace qpmesh::collectives
