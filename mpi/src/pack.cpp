// SPDX-License-Identifier: MIT
// MPI_Pack and its like.
#include <cstring>
#include <limits>

#include "communicator.hpp"
#include "datatype.hpp"
#include "entry.hpp"
#include "environment.hpp"
#include "error.hpp"
#include "external32.hpp"

namespace qpmesh::mpi {
namespace {

// Where in a buffer of packed bytes the next elements lie: there must be room for them.
template <class Size>
std::byte* room(const void* buffer, Size buffer_bytes, const Size* position, MPI_Count bytes) {
  require(position != nullptr, MPI_ERR_ARG, "position is null");
  require(*position >= 0 && bytes <= buffer_bytes - *position, MPI_ERR_TRUNCATE, bytes,
          " packed bytes from ", *position, " on in a buffer of ", buffer_bytes);
  require(buffer != nullptr || bytes == 0, MPI_ERR_BUFFER, "the buffer of packed bytes is null");
  return static_cast<std::byte*>(const_cast<void*>(buffer)) + *position;
}

const Datatype& checked(MPI_Count count, MPI_Datatype type) {
  require(count >= 0, MPI_ERR_COUNT, "count is ", count, ": it is 0 or more");
  return committed_type(type);
}

template <class Size>
void store(Size* size, MPI_Count bytes) {
  require(size != nullptr, MPI_ERR_ARG, "size is null");
  require(bytes <= std::numeric_limits<Size>::max(), MPI_ERR_VALUE_TOO_LARGE, bytes,
          " bytes: call the function that ends in _c");
  *size = static_cast<Size>(bytes);
}

// ---- external32 ----

void check_external32(const char* format) {
  require(format != nullptr && std::strcmp(format, "external32") == 0, MPI_ERR_UNSUPPORTED_DATAREP,
          "the data representation is ", format == nullptr ? "null" : format,
          ": there is external32");
}

MPI_Count external_bytes(const Datatype& type) {
  MPI_Count bytes = 0;
  for_each_basic(type, 0, [&](MPI_Aint, const Basic& basic, MPI_Count count) {
    bytes += count * basic.external_bytes;
    return true;
  });
  return bytes;
}

// Calls move(values of this process, values in external32, so many of a type) in order.
template <class Byte, class Move>
void move_external(Byte* buffer, MPI_Count count, const Datatype& type, const Move& move) {
  MPI_Aint external = 0;
  for (MPI_Count i = 0; i < count; ++i) {
    for_each_basic(type, i * type.extent(),
                   [&](MPI_Aint offset, const Basic& basic, MPI_Count values) {
                     move(buffer + offset, external, basic, static_cast<std::size_t>(values));
                     external += values * basic.external_bytes;
                     return true;
                   });
  }
}

}  // namespace
}  // namespace qpmesh::mpi

using namespace qpmesh::mpi;

#define QPMESH_MPI_ENTRIES "pack.inc"
#include "counted_entries.inc"
