// SPDX-License-Identifier: MIT
#include "qpmesh/local.hpp"

#include <array>

#include "calls/argument_checks.hpp"
#include "collectives/kernels/reduce.hpp"

namespace qpmesh::detail {

void reduce_local(const ConstElements& in, const Elements& inout, const AnyReduction& reduction) {
  constexpr std::string_view operation = "reduce_local";
  calls::check_pair(in, inout, operation);
  if (reduction.function != nullptr) {
    reduction.function(reduction.context, in.data, inout.data, in.element_count);
    return;
  }
  if (reduction.kind == ReductionKind::average) {
    calls::bad_argument(operation, "add up, and divide when all are in",
                        "the average of two parts has no meaning");
  }
  const collectives::ReduceKernel kernel = collectives::reduce_kernel(reduction.kind, in.type);
  if (kernel == nullptr) calls::bad_reduction(reduction.kind, in.type, operation);
  const std::array sources{static_cast<const std::byte*>(in.data),
                           static_cast<const std::byte*>(inout.data)};
  if (in.element_count > 0)
    kernel(static_cast<std::byte*>(inout.data), sources.data(), int{sources.size()},
           in.element_count * in.element_bytes);
}

}  // namespace qpmesh::detail
