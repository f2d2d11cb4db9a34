// Tensors in memory that the other ranks of the host reach without a copy.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "group.hpp"

namespace qpmesh_torch {

// So many bytes, all zero. They hold the group's memory until their last user goes.
at::Tensor empty_bytes(const std::shared_ptr<Group>& group, std::int64_t bytes);

// From here on torch's own tensors of the host, if they have so many bytes at least, lie there too,
// in all threads of the process; null: no more. What does not fit lies where it would otherwise.
void set_memory(std::shared_ptr<Group> group, std::int64_t bytes_min);

}  // namespace qpmesh_torch
