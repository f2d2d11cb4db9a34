// SPDX-License-Identifier: MIT
// What a collective finds and must leave in every rank's memory, computed by loops over all ranks
// from the contract in communicator.hpp.
#pragma once

#include <cstddef>
#include <vector>

#include "simulation/collective_case.hpp"

namespace qpmesh::test {

struct RankMemory {
  std::vector<std::byte> memory;  // poison, with the input in it
  std::vector<std::byte>
      expected;  // the same with the result: whatever else differs, the library has touched
  std::size_t in_begin = 0;
  std::size_t in_bytes = 0;
  std::size_t out_begin = 0;
  std::size_t out_bytes = 0;
  std::vector<std::size_t> in_counts{};
  std::vector<std::size_t> in_displacements{};
  std::vector<std::size_t> out_counts{};
  std::vector<std::size_t> out_displacements{};
};
std::vector<RankMemory> memories(const CollectiveCase& one, int size);

}  // namespace qpmesh::test
