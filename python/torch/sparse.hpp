// A sum of sparse tensors, whose ranks differ in how many elements they have.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "flight.hpp"

namespace qpmesh_torch {

// Begins the sum over tensors and ranks. At the end of flight each of tensors is the sum,
// coalesced: the same bits on every rank. Error: tensors are not sparse (COO) ones of one shape and
// of a type that torch adds; where ranks differ in that, it is told at the end, and the group goes
// on.
void begin_sparse_sum(Flight& flight, const std::vector<at::Tensor>& tensors);

}  // namespace qpmesh_torch
