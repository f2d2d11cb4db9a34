// SPDX-License-Identifier: MIT
// Tensors as vectors of elements that the library knows.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <cstddef>
#include <vector>

#include "flight.hpp"
#include "qpmesh/qpmesh.h"

namespace qpmesh_torch {

// How elements of a tensor are moved: a complex number as two of its parts, bool as a byte.
struct Elements {
  qpmesh_type type;
  std::size_t of_each;  // elements of the type for one of the tensor's
  std::size_t count(const at::Tensor& tensor) const {
    return static_cast<std::size_t>(tensor.numel()) * of_each;
  }
};

// Error: on another device than the host's, sparse, or of a type that the library does not know.
Elements elements_of(const at::Tensor& tensor, const Doing& doing);

// A reduction of torch's for one type of tensor, as the library takes it.
struct Reduction {
  Elements elements;
  qpmesh_reduction reduction = QPMESH_SUM;
  qpmesh_function function = nullptr;  // of QPMESH_USER, commutative
};

// Error: the type has no such reduction.
Reduction reduction_of(const c10d::ReduceOp& op, const at::Tensor& tensor, const Doing& doing);

// Error: it is another one.
void require_sum(const c10d::ReduceOp& op, const Doing& doing);

// The memory of tensor where that is elements one behind the other, else a copy; kept by flight.
// A premultiplied sum reads what is multiplied.
void* source(Flight& flight, const at::Tensor& tensor, const c10d::ReduceOp* op = nullptr);
// The same for what is written, or read and written; a copy is copied back at the end.
void* target(Flight& flight, const at::Tensor& tensor);
void* source_and_target(Flight& flight, const at::Tensor& tensor,
                        const c10d::ReduceOp* op = nullptr);
// What from, of which a target was made before, holds at the end.
void copy_at_end(Flight& flight, const at::Tensor& to, const at::Tensor& from);

// A list of tensors of one type as blocks, wherever they lie.
class TensorBlocks {
 public:
  // elements: of the operation's other tensor, or of the first one. Error: not one for each rank,
  // or of different types.
  static TensorBlocks of_sources(Flight& flight, const std::vector<at::Tensor>& tensors,
                                 Elements elements, const c10d::ReduceOp* op = nullptr);
  static TensorBlocks of_targets(Flight& flight, const std::vector<at::Tensor>& tensors,
                                 Elements elements);
  // As long as this is.
  const qpmesh_blocks* get() {
    blocks_ = {.data = nullptr,
               .counts = counts_.data(),
               .displacements = nullptr,
               .ranges = ranges_.data()};
    return &blocks_;
  }

 private:
  TensorBlocks(Flight& flight, const std::vector<at::Tensor>& tensors, Elements elements);
  std::vector<std::size_t> counts_;
  std::vector<void*> ranges_;
  qpmesh_blocks blocks_{};
};

}  // namespace qpmesh_torch
