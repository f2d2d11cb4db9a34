// SPDX-License-Identifier: MIT
// Topologies: who a rank's neighbours are.
#pragma once

#include <vector>

#include "mpi.h"

namespace qpmesh::mpi {

struct Communicator;

// Of a communicator; duplicates share it. Ranks are the communicator's.
struct Topology {
  int kind = MPI_UNDEFINED;  // MPI_CART, MPI_GRAPH, MPI_DIST_GRAPH
  // Whom a neighbourhood collective receives from and sends to, in the order of its blocks; beyond
  // the edge of a grid it is MPI_PROC_NULL.
  std::vector<int> sources{};
  std::vector<int> targets{};
  // Of a grid.
  std::vector<int> lengths{};
  std::vector<int> periods{};  // 0 or 1
  // Of a graph: everybody's neighbours, those of rank r up to index[r].
  std::vector<int> index{};
  std::vector<int> edges{};
  // Of a distributed graph.
  bool weighted = false;
  std::vector<int> source_weights{};
  std::vector<int> target_weights{};
};

// Failure{MPI_ERR_TOPOLOGY} where the communicator has none.
const Topology& given_topology(const Communicator& communicator);

// Lengths of a grid of so many ranks, which do not rise. None has a smaller difference between the
// longest and the shortest; of those that have the same, the shortest is longest, then the one
// before it, and so on.
std::vector<int> even_lengths(int ranks, int dimensions);

}  // namespace qpmesh::mpi
