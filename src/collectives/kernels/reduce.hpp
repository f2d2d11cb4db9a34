// Element-wise reductions of two vectors.
#pragma once

#include <cstddef>
#include <optional>

#include "qpmesh/element.hpp"
#include "qpmesh/reduction.hpp"

namespace qpmesh::collectives {

// target[i] = left[i] op right[i] for element_count elements; target may be
// left or right. Aligned to the element's size.
using ReduceKernel = void (*)(std::byte* target, const std::byte* left, const std::byte* right,
                              std::size_t element_count);

// average has the kernel of sum; its division is divide_kernel. nullptr: the
// reduction has no meaning for the type.
ReduceKernel reduce_kernel(ReductionKind kind, ElementType type) noexcept;

// data[i] /= divisor, in the element's type.
using DivideKernel = void (*)(std::byte* data, std::size_t element_count, int divisor);
DivideKernel divide_kernel(ElementType type) noexcept;

std::size_t element_bytes(ElementType type) noexcept;

}  // namespace qpmesh::collectives
