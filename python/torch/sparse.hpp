// SPDX-License-Identifier: MIT
// A sum of sparse tensors, whose ranks differ in how many elements they have.
#pragma once

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "tensors.hpp"

namespace qpmesh_torch {

// Every rank gathers all elements and adds them up itself, in the order of ranks. How many there
// are is gathered first, in line with the group's other collectives. What follows begins when that
// is known, which is sooner here and later there: it goes as messages, which are told apart by
// their tags and need no order.
class SparseSum {
 public:
  SparseSum(const Flight& flight, const std::vector<at::Tensor>& tensors) : tensors_{tensors} {
    const Doing& doing = flight.doing();
    const at::Tensor& first = tensors.front();
    for (const at::Tensor& tensor : tensors) {
      if (tensor.layout() != at::kSparse)
        bad_argument(doing, "tensors that are sparse (COO) and others", "give all of one layout");
      if (!tensor.device().is_cpu()) elements_of(tensor, doing);
      if (tensor.scalar_type() != first.scalar_type() || tensor.sizes() != first.sizes() ||
          tensor.sparse_dim() != first.sparse_dim())
        bad_argument(doing, "tensors of different shapes or types", "give all alike");
    }
    switch (first.scalar_type()) {
      case at::kBool:
      case at::kHalf:
      case at::kBFloat16:
      case at::kComplexHalf:
        bad_argument(doing,
                     std::string{"there is no SUM of sparse "} + c10::toString(first.scalar_type()),
                     "convert it: torch adds no sparse tensors of this type");
      default: break;
    }
    if (first.dim() > dimensions_max) {
      bad_argument(doing, "the tensor has " + std::to_string(first.dim()) + " dimensions",
                   "a sparse one may have " + std::to_string(dimensions_max));
    }
  }

  void gather_shapes(Flight& flight) {
    const NoGradient guard;
    at::Tensor mine = tensors_.front();
    for (std::size_t i = 1; i < tensors_.size(); ++i) mine = at::add(mine, tensors_[i]);
    mine = mine.coalesce();
    mine_ = {.indices = mine._indices().t().contiguous(), .values = mine._values().contiguous()};
    flight.keep(mine_.indices);
    flight.keep(mine_.values);
    shape_.type = static_cast<std::int64_t>(mine.scalar_type());
    shape_.dimensions = mine.dim();
    shape_.sparse_dimensions = mine.sparse_dim();
    shape_.elements = mine_.values.size(0);
    std::copy(mine.sizes().begin(), mine.sizes().end(), shape_.lengths.begin());
    shapes_.resize(static_cast<std::size_t>(flight.group().size()));
    const qpmesh_call call = call_of(flight);
    require_ok(qpmesh_allgather_async(communicator(flight), &shape_, shapes_.data(), sizeof(Shape),
                                      QPMESH_BYTE, &call, flight.request()),
               flight.doing());
  }

  void exchange(Flight& flight) {
    require_one_shape(flight.doing());
    try {
      exchange_elements(flight);
    } catch (const Error&) {
      throw;  // the library's own, of which the others are told
    } catch (const std::exception& error) {
      // This rank has no memory, say. The others would wait for it until their time is over.
      const std::string reason = flight.doing().text() + ": " + error.what();
      qpmesh_abort(flight.group().handle(), reason.c_str());
      throw;
    }
  }

  void add_up() {
    const NoGradient guard;
    at::Tensor sum;
    for (const Part& part : parts_) {
      const at::Tensor tensor =
          at::_sparse_coo_tensor_unsafe(part.indices.t(), part.values, tensors_.front().sizes(),
                                        tensors_.front().options().requires_grad(false));
      tensor._coalesced_(true);
      sum = sum.defined() ? at::add(sum, tensor) : tensor;
    }
    for (at::Tensor& tensor : tensors_) tensor.copy_(sum);
  }

 private:
  void exchange_elements(Flight& flight) {
    const NoGradient guard;
    for (int rank = 0; rank < flight.group().size(); ++rank) {
      if (rank == flight.group().rank()) {
        parts_.push_back(mine_);
        continue;
      }
      const std::int64_t elements = shapes_[static_cast<std::size_t>(rank)].elements;
      auto sizes = mine_.values.sizes().vec();
      sizes.front() = elements;
      parts_.push_back(
          {.indices = at::empty({elements, mine_.indices.size(1)}, mine_.indices.options()),
           .values = at::empty(sizes, mine_.values.options())});
      flight.keep(parts_.back().indices);
      flight.keep(parts_.back().values);
      message(qpmesh_receive_async, flight, parts_.back().indices, rank);
      message(qpmesh_receive_async, flight, parts_.back().values, rank);
      message(qpmesh_send_async, flight, mine_.indices, rank);
      message(qpmesh_send_async, flight, mine_.values, rank);
    }
  }

  static constexpr std::int64_t dimensions_max = 60;
  struct Shape {
    std::int64_t type = 0;
    std::int64_t dimensions = 0;
    std::int64_t sparse_dimensions = 0;
    std::int64_t elements = 0;
    std::array<std::int64_t, dimensions_max> lengths{};

    bool is_like(const Shape& other) const {
      return type == other.type && dimensions == other.dimensions &&
             sparse_dimensions == other.sparse_dimensions && lengths == other.lengths;
    }
    std::string text() const {
      std::string text = c10::toString(static_cast<at::ScalarType>(type));
      for (std::int64_t i = 0; i < dimensions; ++i)
        text += (i == 0 ? " [" : ", ") + std::to_string(lengths[static_cast<std::size_t>(i)]);
      return text + "] with " + std::to_string(sparse_dimensions) + " sparse dimensions";
    }
  };
  // What a rank gives, coalesced.
  struct Part {
    at::Tensor indices;  // those of an element side by side
    at::Tensor values;
  };
  // Its steps run in any thread.
  struct NoGradient {
    const c10::AutoGradMode no_gradient{false};
    const at::AutoDispatchBelowADInplaceOrView no_autograd;
  };

  static qpmesh_communicator* communicator(const Flight& flight) {
    return flight.group().communicator(flight.doing());
  }
  static qpmesh_call call_of(const Flight& flight) {
    return {.struct_bytes = sizeof(qpmesh_call), .timeout_ms = flight.timeout_ms()};
  }
  // begin: qpmesh_send_async or qpmesh_receive_async.
  template <class Begin>
  static void message(Begin begin, Flight& flight, const at::Tensor& tensor, int rank) {
    if (tensor.numel() == 0) return;
    const Elements elements = elements_of(tensor, flight.doing());
    const qpmesh_call call = call_of(flight);
    require_ok(begin(communicator(flight), tensor.data_ptr(), elements.count(tensor), elements.type,
                     rank, flight.own_tag(), &call, flight.request()),
               flight.doing());
  }

  // All ranks see the same, and nothing else was begun.
  void require_one_shape(const Doing& doing) const {
    const auto other = std::ranges::find_if_not(
        shapes_, [&](const Shape& shape) { return shape.is_like(shapes_.front()); });
    if (other == shapes_.end()) return;
    throw_error(doing, QPMESH_MISMATCH,
                "rank 0 gives a tensor of " + shapes_.front().text() + ", rank " +
                    std::to_string(other - shapes_.begin()) + " one of " + other->text(),
                "give all ranks' tensors one shape and type");
  }

  std::vector<at::Tensor> tensors_;
  Shape shape_;
  std::vector<Shape> shapes_;  // of all ranks
  Part mine_;
  std::vector<Part> parts_;  // of all ranks
};

// Begins the sum over tensors and ranks. At the end of flight each of tensors is the sum,
// coalesced: the same bits on every rank. Error: tensors are not sparse (COO) ones of one shape and
// of a type that torch adds; where ranks differ in that, it is told at the end, and the group goes
// on.
inline void begin_sparse_sum(Flight& flight, const std::vector<at::Tensor>& tensors) {
  const auto sum = std::make_shared<SparseSum>(flight, tensors);
  sum->gather_shapes(flight);
  flight.then([sum](Flight& of) {
    sum->exchange(of);
    of.then([sum](Flight&) { sum->add_up(); });
  });
}

}  // namespace qpmesh_torch
