// SPDX-License-Identifier: MIT
// The format external32: big-endian, with lengths that are the same everywhere.
#pragma once

#include <cstddef>

#include "datatype.hpp"

namespace qpmesh::mpi {

// So many values of one type that lie side by side on either side. Failure{MPI_ERR_CONVERSION}
// where a value does not fit.
void to_external32(const Basic& basic, const std::byte* values, std::size_t count,
                   std::byte* external);
void from_external32(const Basic& basic, const std::byte* external, std::size_t count,
                     std::byte* values);

}  // namespace qpmesh::mpi
