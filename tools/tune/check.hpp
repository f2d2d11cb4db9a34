// Predictions beside measurements, of every algorithm of every collective.
#pragma once

#include "qpmesh/qpmesh.hpp"

namespace qpmesh::tune {

struct CheckedSizes {
  std::size_t bytes_min = 8;
  std::size_t bytes_max = std::size_t{4} << 20;
};

// Collective; rank 0 prints a table, and then for each algorithm the worst factor between the two,
// and the choices that were slower than the best algorithm by more than a tenth.
void check(Communicator& world, const CheckedSizes& sizes, int tries);

}  // namespace qpmesh::tune
