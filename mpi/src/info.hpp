// Hints: pairs of texts, in the order in which their keys came.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "counted.hpp"
#include "mpi.h"

namespace qpmesh::mpi {

struct Info : Counted {
  std::vector<std::pair<std::string, std::string>> pairs{};

  const std::string* find(std::string_view key) const noexcept;
  void set(std::string_view key, std::string_view value);

  MPI_Info handle() noexcept { return reinterpret_cast<MPI_Info>(this); }
};
// Null for MPI_INFO_NULL. MPI_INFO_ENV is how the program was started.
Info* info_of(MPI_Info handle) noexcept;

}  // namespace qpmesh::mpi
