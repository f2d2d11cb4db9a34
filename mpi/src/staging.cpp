// SPDX-License-Identifier: MIT
#include "staging.hpp"

#include <algorithm>

namespace qpmesh::mpi {

std::byte* Staging::memory(MPI_Count bytes) {
  // Not initialized: it is written before it is read.
  auto& own = steps().memory.emplace_back(new std::byte[static_cast<std::size_t>(bytes) + 1]);
  return own.get();
}

const std::byte* Staging::packed(const Elements& elements) {
  std::byte* const own = memory(elements.bytes());
  pack_to(elements, own);
  return own;
}

std::byte* Staging::unpacked(const Elements& elements) {
  std::byte* const own = memory(elements.bytes());
  unpack_from(own, elements);
  return own;
}

void Staging::pack_to(const Elements& elements, std::byte* packed) {
  steps().packs.push_back(
      {const_cast<void*>(elements.data), elements.count, Reference{elements.type}, packed});
}

void Staging::unpack_from(const std::byte* packed, const Elements& elements) {
  steps().unpacks.push_back({const_cast<void*>(elements.data), elements.count,
                             Reference{elements.type}, const_cast<std::byte*>(packed)});
}

void Staging::Steps::pack() const {
  for (const Step& step : packs) mpi::pack(step.data, step.count, *step.type, step.packed);
}

void Staging::Steps::unpack(std::size_t bytes_max) const {
  for (const Step& step : unpacks) {
    const auto bytes = static_cast<std::size_t>(step.count * step.type->size);
    mpi::unpack(step.packed, std::min(bytes, bytes_max), step.data, *step.type);
  }
}

}  // namespace qpmesh::mpi
