#pragma once

#include "collectives/group.hpp"
#include "collectives/kernels/reduce.hpp"

namespace qpmesh::collectives {

// out = in_0 op in_1 op … of element_count elements; in and out are the same memory or do not overlap.
// Trivially destructible: it is a coroutine parameter.
struct AllreduceArguments {
  const std::byte* in;
  std::byte* out;
  std::size_t element_count;
  std::size_t element_bytes;
  ReduceKernel kernel;
};

// The reduction of a receive: target[i] = operand[i] op arrived[i].
struct CombineContext {
  ReduceKernel kernel;
  std::size_t element_bytes;
};
inline void combine_right(std::byte* target, const std::byte* operand, const std::byte* arrived,
                          std::size_t bytes, const void* context) {
  const auto& reduction = *static_cast<const CombineContext*>(context);
  reduction.kernel(target, operand, arrived, bytes / reduction.element_bytes);
}

Task allreduce_exchange(Group group, AllreduceArguments arguments);
Task allreduce_circulant(Group group, AllreduceArguments arguments);

inline constexpr int exchange_ranks_max = 16;

}  // namespace qpmesh::collectives
