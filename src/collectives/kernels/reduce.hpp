// SPDX-License-Identifier: MIT
// Element-wise reductions of several vectors into one.
#pragma once

#include <cstddef>
#include <exception>
#include <span>

#include "qpmesh/element.hpp"
#include "qpmesh/reduction.hpp"

namespace qpmesh::collectives {

// target[i] = sources[0][i] op sources[1][i] op … of source_count ≥ 2 vectors, from left to right;
// target may be one of them, else it overlaps none. Aligned to the element's size, and whole
// elements long. The 16-bit floating types are added up in float and rounded once.
using ReduceKernel = void (*)(std::byte* target, const std::byte* const* sources, int source_count,
                              std::size_t bytes);

// The fastest on this processor. average has the kernel of sum; its division is divide_kernel.
// nullptr: the reduction has no meaning for the type.
ReduceKernel reduce_kernel(ReductionKind kind, ElementType type) noexcept;

// With the vector instructions that this processor has, by Google Highway: the same bits as
// scalar_reduce_kernel's. nullptr: not written with vectors, or the processor has no more than the
// compiler uses anyway.
ReduceKernel vector_reduce_kernel(ReductionKind kind, ElementType type) noexcept;

// What all kernels are held to: the same bits, but for the payload and the sign of NaN.
ReduceKernel scalar_reduce_kernel(ReductionKind kind, ElementType type) noexcept;

// data[i] /= divisor, in the type that the reduction computes in.
using DivideKernel = void (*)(std::byte* data, std::size_t element_count, int divisor);
DivideKernel divide_kernel(ElementType type) noexcept;

// What a user's function threw, on its way to the call that brought the function.
struct UserFailure {
  std::exception_ptr cause;
};

// One reduction of one call: a kernel of the library, or a user's function. Trivially destructible:
// it lies in the frames of tasks.
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
