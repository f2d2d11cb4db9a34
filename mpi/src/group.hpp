// SPDX-License-Identifier: MIT
// Groups: ordered ranks, by their ranks in MPI_COMM_WORLD.
#pragma once

#include <span>
#include <vector>

#include "counted.hpp"
#include "mpi.h"

namespace qpmesh::mpi {

struct Group : Handled<Group> {
  Group(std::vector<int> ranks_in_world, int own_rank_in_world);

  std::vector<int> ranks;    // in MPI_COMM_WORLD
  int rank = MPI_UNDEFINED;  // of this process

  int size() const noexcept { return static_cast<int>(ranks.size()); }
  MPI_Group handle() noexcept;  // MPI_GROUP_EMPTY where it is
};
// Null for MPI_GROUP_NULL, and for what was freed.
Group* group_of(MPI_Group handle) noexcept;
Group& given_group(MPI_Group handle);
// What MPI_IDENT and its like say of two lists of ranks.
int compare(std::span<const int> left, std::span<const int> right);

}  // namespace qpmesh::mpi
