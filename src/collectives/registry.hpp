// Every algorithm, by name: the name of its file, its row, its QPMESH_… value and its log field.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "collectives/allreduce/allreduce.hpp"

namespace qpmesh::collectives {

struct AllreduceAlgorithm {
  std::string_view name;
  bool (*applies)(int size);
  Task (*run)(Group group, AllreduceArguments arguments);
};

std::span<const AllreduceAlgorithm> allreduce_algorithms();

// The row of that name, or nullptr.
const AllreduceAlgorithm* find_allreduce(std::string_view name) noexcept;

// The row for this call. Depends only on what all ranks share, so that all choose alike. forced: a name, or
// empty; it must be a row's, and apply (see find_allreduce).
const AllreduceAlgorithm& select_allreduce(std::string_view forced, int size, std::size_t bytes) noexcept;

}  // namespace qpmesh::collectives
