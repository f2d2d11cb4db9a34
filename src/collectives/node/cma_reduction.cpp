#include "collectives/node/cma_reduction.hpp"

#include <cmath>

namespace qpmesh::collectives {
namespace {

// How much of a slice is copied at once: that of all others together lies in the cache, but a call
// of the system should be worth it.
std::size_t part_bytes_of(int size, std::size_t element_bytes) {
  constexpr std::size_t cached_bytes = std::size_t{512} << 10;
  constexpr std::size_t part_bytes_min = std::size_t{32} << 10;
  const std::size_t bytes =
      std::max(part_bytes_min, cached_bytes / static_cast<std::size_t>(size - 1));
  return std::max<std::size_t>(bytes / element_bytes, 1) * element_bytes;
}

}  // namespace

Parts::Parts(const Group& group, std::size_t slice_bytes, std::size_t element_bytes)
    : part_bytes_{std::min(slice_bytes, part_bytes_of(group.size(), element_bytes))},
      room_bytes_{(part_bytes_ + alignment - 1) / alignment * alignment},
      scratch_{group, room_bytes_ * static_cast<std::size_t>(group.size() - 1)} {}

std::optional<int> reduce_in_place(const Group& group, const NodeOperation& node,
                                   const Arguments& arguments, const Parts& parts,
                                   std::byte* target, std::size_t place, std::size_t bytes) {
  for (std::size_t begin = 0; begin < bytes; begin += parts.part_bytes()) {
    const std::size_t part_bytes = std::min(parts.part_bytes(), bytes - begin);
    std::size_t rooms_taken = 0;
    std::optional<int> unread;
    Operands operands;
    const auto sources = operands_in_rank_order(
        operands, group, arguments.in + place + begin, [&](int rank) -> const std::byte* {
          if (node.is_in_arena(rank)) return node.data_of(rank, place + begin, part_bytes);
          std::byte* const room = parts.room(rooms_taken++);
          if (!node.copy_in_place(rank, room, place + begin, part_bytes)) unread = rank;
          return room;
        });
    if (unread) return unread;
    group.reduce(arguments.reducer, target + begin, sources, part_bytes);
  }
  return std::nullopt;
}

double copies(const CallShape& shape) {
  const auto part_bytes = static_cast<double>(part_bytes_of(shape.size, shape.element_bytes));
  return (shape.ranks() - 1) * std::ceil(shape.block_bytes() / part_bytes);
}

}  // namespace qpmesh::collectives
