// SPDX-License-Identifier: MIT
#include "tensors.hpp"

#include <ATen/MemoryOverlap.h>
#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>
#include <c10/util/complex.h>

#include <string>

namespace qpmesh_torch {
namespace {

template <class T>
int multiply(void*, const void* left, void* inout, std::size_t count) {
  const T* const a = static_cast<const T*>(left);
  T* const b = static_cast<T*>(inout);
  for (std::size_t i = 0; i < count; ++i) b[i] = a[i] * b[i];
  return 0;
}

const char* text_of(c10d::ReduceOp::RedOpType op) noexcept {
  switch (op) {
    case c10d::ReduceOp::SUM: return "SUM";
    case c10d::ReduceOp::AVG: return "AVG";
    case c10d::ReduceOp::PRODUCT: return "PRODUCT";
    case c10d::ReduceOp::MIN: return "MIN";
    case c10d::ReduceOp::MAX: return "MAX";
    case c10d::ReduceOp::BAND: return "BAND";
    case c10d::ReduceOp::BOR: return "BOR";
    case c10d::ReduceOp::BXOR: return "BXOR";
    case c10d::ReduceOp::PREMUL_SUM: return "PREMUL_SUM";
    default: return "an unknown reduction";
  }
}

[[noreturn]] void no_reduction(c10d::ReduceOp::RedOpType op, const at::Tensor& tensor,
                               const Doing& doing, const std::string& hint) {
  bad_argument(
      doing,
      std::string{"there is no "} + text_of(op) + " of " + c10::toString(tensor.scalar_type()),
      hint);
}

// Of two values: what a sum of bools, a product, … mean.
qpmesh_reduction of_bools(c10d::ReduceOp::RedOpType op, const at::Tensor& tensor,
                          const Doing& doing) {
  switch (op) {
    case c10d::ReduceOp::SUM:
    case c10d::ReduceOp::MAX:
    case c10d::ReduceOp::BOR: return QPMESH_LOGICAL_OR;
    case c10d::ReduceOp::PRODUCT:
    case c10d::ReduceOp::MIN:
    case c10d::ReduceOp::BAND: return QPMESH_LOGICAL_AND;
    case c10d::ReduceOp::BXOR: return QPMESH_LOGICAL_XOR;
    default: no_reduction(op, tensor, doing, "convert it to numbers");
  }
}

const c10d::NCCLPreMulSumSupplement& factor_of(const c10d::ReduceOp& op) {
  return static_cast<const c10d::NCCLPreMulSumSupplement&>(*op.supplement_);
}

at::Tensor multiplied(const at::Tensor& tensor, const c10d::ReduceOp& op) {
  const auto& factor = factor_of(op);
  if (!factor.tensor_factor.defined()) return tensor * factor.double_factor;
  // Of one dimension: it is multiplied in the wider type of the two.
  return (tensor * factor.tensor_factor.reshape({1})).reshape(tensor.sizes());
}

// Whether its memory holds its elements, one behind the other.
bool lies_plainly(const at::Tensor& tensor) {
  return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
}

at::Tensor plain(const at::Tensor& tensor) {
  return tensor.resolve_conj().resolve_neg().contiguous();
}

// What is read of it.
at::Tensor to_read(const at::Tensor& tensor, const c10d::ReduceOp* op) {
  if (op != nullptr && *op == c10d::ReduceOp::PREMUL_SUM)
    return plain(multiplied(tensor, *op)).to(tensor.scalar_type());
  return lies_plainly(tensor) ? tensor : plain(tensor);
}

void require_writable(const Flight& flight, const at::Tensor& tensor) {
  if (at::has_internal_overlap(tensor) == at::MemOverlap::Yes) {
    bad_argument(flight.doing(), "several elements of the tensor lie in one place",
                 "give what expand() made as contiguous()");
  }
}

void* memory_of(Flight& flight, const at::Tensor& tensor) {
  flight.keep(tensor);
  return tensor.numel() == 0 ? nullptr : tensor.data_ptr();
}

}  // namespace

Elements elements_of(const at::Tensor& tensor, const Doing& doing) {
  if (!tensor.defined()) bad_argument(doing, "the tensor is undefined", "give one");
  if (!tensor.device().is_cpu()) {
    bad_argument(doing, "the tensor is on the device " + tensor.device().str(),
                 "move it by .cpu(): only memory of the host is used");
  }
  if (tensor.layout() != at::kStrided) {
    bad_argument(doing, "the tensor is sparse",
                 "give its to_dense(), or its indices and values one by one");
  }
  switch (tensor.scalar_type()) {
    case at::kBool:
    case at::kByte: return {QPMESH_UINT8, 1};
    case at::kChar: return {QPMESH_INT8, 1};
    case at::kShort: return {QPMESH_INT16, 1};
    case at::kInt: return {QPMESH_INT32, 1};
    case at::kLong: return {QPMESH_INT64, 1};
    case at::kHalf: return {QPMESH_FLOAT16, 1};
    case at::kBFloat16: return {QPMESH_BFLOAT16, 1};
    case at::kFloat: return {QPMESH_FLOAT32, 1};
    case at::kDouble: return {QPMESH_FLOAT64, 1};
    case at::kComplexHalf: return {QPMESH_FLOAT16, 2};
    case at::kComplexFloat: return {QPMESH_FLOAT32, 2};
    case at::kComplexDouble: return {QPMESH_FLOAT64, 2};
    default:
      bad_argument(doing, std::string{"the tensor is of "} + c10::toString(tensor.scalar_type()),
                   "integers, floating-point and complex numbers, and bool can be sent; what is "
                   "quantized as its int_repr()");
  }
}

void require_sum(const c10d::ReduceOp& op, const Doing& doing) {
  if (op == c10d::ReduceOp::SUM) return;
  bad_argument(doing, std::string{"there is no "} + text_of(op) + " of sparse tensors",
               "sum them, or give to_dense()");
}

Reduction reduction_of(const c10d::ReduceOp& op, const at::Tensor& tensor, const Doing& doing) {
  Reduction how{.elements = elements_of(tensor, doing)};
  const c10d::ReduceOp::RedOpType kind = op;
  const auto type = tensor.scalar_type();
  if (type == at::kBool) {
    how.reduction = of_bools(kind, tensor, doing);
    return how;
  }
  const bool is_complex = how.elements.of_each == 2;
  switch (kind) {
    case c10d::ReduceOp::PREMUL_SUM:
      if (at::isIntegralType(type, false))
        no_reduction(kind, tensor, doing, "give floating-point numbers");
      [[fallthrough]];
    case c10d::ReduceOp::SUM: how.reduction = QPMESH_SUM; return how;
    case c10d::ReduceOp::AVG: how.reduction = QPMESH_AVERAGE; return how;
    case c10d::ReduceOp::PRODUCT:
      how.reduction = QPMESH_PRODUCT;
      if (!is_complex) return how;
      if (type == at::kComplexHalf) no_reduction(kind, tensor, doing, "convert it to complex64");
      how.reduction = QPMESH_USER;
      how.function = type == at::kComplexFloat ? multiply<c10::complex<float>>
                                               : multiply<c10::complex<double>>;
      how.elements = {QPMESH_STRUCT + static_cast<int>(tensor.element_size()), 1};
      return how;
    case c10d::ReduceOp::MIN:
    case c10d::ReduceOp::MAX:
      if (is_complex) no_reduction(kind, tensor, doing, "complex numbers have no order");
      how.reduction = kind == c10d::ReduceOp::MIN ? QPMESH_MIN : QPMESH_MAX;
      return how;
    case c10d::ReduceOp::BAND:
    case c10d::ReduceOp::BOR:
    case c10d::ReduceOp::BXOR:
      if (!at::isIntegralType(type, false))
        no_reduction(kind, tensor, doing, "bits of integers and bools are combined");
      how.reduction = kind == c10d::ReduceOp::BAND  ? QPMESH_BIT_AND
                      : kind == c10d::ReduceOp::BOR ? QPMESH_BIT_OR
                                                    : QPMESH_BIT_XOR;
      return how;
    default: no_reduction(kind, tensor, doing, "");
  }
}

void* source(Flight& flight, const at::Tensor& tensor, const c10d::ReduceOp* op) {
  const c10::AutoGradMode no_gradient{false};
  return memory_of(flight, to_read(tensor, op));
}

void* target(Flight& flight, const at::Tensor& tensor) {
  require_writable(flight, tensor);
  if (lies_plainly(tensor)) return memory_of(flight, tensor);
  const at::Tensor memory = at::empty(tensor.sizes(), tensor.options().requires_grad(false));
  flight.copy_back(tensor, memory);
  return memory_of(flight, memory);
}

void* source_and_target(Flight& flight, const at::Tensor& tensor, const c10d::ReduceOp* op) {
  require_writable(flight, tensor);
  const c10::AutoGradMode no_gradient{false};
  const at::Tensor memory = to_read(tensor, op);
  if (!memory.is_same(tensor)) flight.copy_back(tensor, memory);
  return memory_of(flight, memory);
}

void copy_at_end(Flight& flight, const at::Tensor& to, const at::Tensor& from) {
  if (to.is_same(from)) return;
  require_writable(flight, to);
  flight.copy_back(to, from);
}

TensorBlocks::TensorBlocks(Flight& flight, const std::vector<at::Tensor>& tensors,
                           Elements elements) {
  const int size = flight.group().size();
  if (tensors.size() != static_cast<std::size_t>(size)) {
    bad_argument(flight.doing(), "the list has " + std::to_string(tensors.size()) + " tensors",
                 "give one for each of the " + std::to_string(size) + " ranks of the group");
  }
  for (const at::Tensor& tensor : tensors) {
    elements_of(tensor, flight.doing());
    if (tensor.scalar_type() != tensors.front().scalar_type()) {
      bad_argument(flight.doing(),
                   std::string{"tensors of "} + c10::toString(tensors.front().scalar_type()) +
                       " and " + c10::toString(tensor.scalar_type()) + " in one list",
                   "give all of one type");
    }
    counts_.push_back(elements.count(tensor));
  }
}

TensorBlocks TensorBlocks::of_sources(Flight& flight, const std::vector<at::Tensor>& tensors,
                                      Elements elements, const c10d::ReduceOp* op) {
  TensorBlocks blocks{flight, tensors, elements};
  for (const at::Tensor& tensor : tensors) blocks.ranges_.push_back(source(flight, tensor, op));
  return blocks;
}

TensorBlocks TensorBlocks::of_targets(Flight& flight, const std::vector<at::Tensor>& tensors,
                                      Elements elements) {
  TensorBlocks blocks{flight, tensors, elements};
  for (const at::Tensor& tensor : tensors) blocks.ranges_.push_back(target(flight, tensor));
  return blocks;
}

}  // namespace qpmesh_torch
