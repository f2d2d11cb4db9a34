#include "collectives/registry.hpp"

#include <array>

namespace qpmesh::collectives {
namespace {

constexpr std::array rows{
    AllreduceAlgorithm{"exchange", [](int size) { return size <= exchange_ranks_max; }, allreduce_exchange},
    AllreduceAlgorithm{"circulant", [](int) { return true; }, allreduce_circulant},
};

// Where sending whole vectors to everybody costs as much as the further rounds of the circulant pattern
// (measured with 2 to 8 ranks on two cores; the crossover is flat).
constexpr std::size_t exchange_bytes_max = 8 * 1024;

}  // namespace

std::span<const AllreduceAlgorithm> allreduce_algorithms() { return rows; }

const AllreduceAlgorithm* find_allreduce(std::string_view name) noexcept {
  for (const AllreduceAlgorithm& row : rows) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

const AllreduceAlgorithm& select_allreduce(std::string_view forced, int size, std::size_t bytes) noexcept {
  if (!forced.empty()) {
    if (const AllreduceAlgorithm* const row = find_allreduce(forced)) return *row;
  }
  const bool small = bytes * static_cast<std::size_t>(size - 1) <= exchange_bytes_max;
  return small && rows[0].applies(size) ? rows[0] : rows[1];
}

}  // namespace qpmesh::collectives
