// Single copy, reductions: every rank copies its slice of all vectors straight out of where they lie, in parts that stay in its cache,
// and reduces them; in an allreduce it then copies the others' slices of the result from there. What lies in Buffers is reduced where it lies.
// Wins for long vectors on one node: nothing is staged, what other cores have written crosses once, and there are three steps however
// long the vector is, which ranks that share cores wait for. In rank order: ordered reductions included; the same bits on every rank.
// Cost per rank: (N-1)/N S copied and reduced; an allreduce (N-1)/N S copied once more; a call of the system for each copy.
// Source: J. Hashmi, S. Chakraborty, M. Bayatpour, H. Subramoni, D. Panda, "Designing efficient shared address space reduction collectives for
// multi-/many-cores", 2018, with process_vm_readv for shared address spaces.
#include <optional>

#include "collectives/node/node.hpp"
#include "collectives/node/operation.hpp"
#include "collectives/node/work.hpp"

namespace qpmesh::collectives {
namespace {

// How much of a slice is copied at once: that of all others together lies in the cache, but a call of the system should be worth it.
std::size_t part_bytes_of(int size, std::size_t element_bytes) {
  constexpr std::size_t cached_bytes = std::size_t{512} << 10;
  constexpr std::size_t part_bytes_min = std::size_t{32} << 10;
  const std::size_t bytes = std::max(part_bytes_min, cached_bytes / static_cast<std::size_t>(size - 1));
  return std::max<std::size_t>(bytes / element_bytes, 1) * element_bytes;
}

// Room for a part of every other rank's slice, each aligned.
class Parts {
 public:
  Parts(const Group& group, std::size_t slice_bytes, std::size_t element_bytes)
      : part_bytes_{std::min(slice_bytes, part_bytes_of(group.size(), element_bytes))},
        room_bytes_{(part_bytes_ + alignment - 1) / alignment * alignment},
        scratch_{group, room_bytes_ * static_cast<std::size_t>(group.size() - 1)} {}

  std::size_t part_bytes() const noexcept { return part_bytes_; }
  std::byte* room(std::size_t index) const noexcept { return scratch_.data() + index * room_bytes_; }

 private:
  static constexpr std::size_t alignment = base::cache_line_bytes;
  std::size_t part_bytes_;
  std::size_t room_bytes_;
  Scratch scratch_;
};

// target = the bytes from `place` on of all vectors, reduced. Returns the rank, if any, whose vector could not be read.
std::optional<int> reduce_in_place(const Group& group, const NodeOperation& node, const Arguments& arguments,
                                   const Parts& parts, std::byte* target, std::size_t place,
                                   std::size_t bytes) {
  for (std::size_t begin = 0; begin < bytes; begin += parts.part_bytes()) {
    const std::size_t part_bytes = std::min(parts.part_bytes(), bytes - begin);
    std::size_t rooms_taken = 0;
    std::optional<int> unread;
    Operands operands;
    const auto sources = operands_in_rank_order(
        operands, group, arguments.in + place + begin, [&](int rank) -> const std::byte* {
          if (node.is_direct(rank)) return node.data_of(rank, place + begin, part_bytes);
          std::byte* const room = parts.room(rooms_taken++);
          if (!node.copy_in_place(rank, room, place + begin, part_bytes)) unread = rank;
          return room;
        });
    if (unread) return unread;
    group.reduce(arguments.reducer, target + begin, sources, part_bytes);
  }
  return std::nullopt;
}

}  // namespace

Task allreduce_single_copy(Group group, const Arguments& arguments) {
  NodeOperation node{group};
  const Blocks slices = even_blocks(arguments.element_count, group.size(), arguments.element_bytes);
  const std::size_t own = slices.first_bytes(group.rank());
  const std::size_t own_bytes = slices.length_bytes(group.rank());
  const Parts parts{group, own_bytes, arguments.element_bytes};
  co_await node.own_slot();
  node.publish_in_place(arguments.in, arguments.bytes(), arguments.out);
  co_await node.all(1);
  const auto unread = reduce_in_place(group, node, arguments, parts, arguments.out + own, own, own_bytes);
  if (unread) co_await node.failure_of(*unread);
  node.advance(2);
  // Whoever has come to step 2 reads no more of our vector, which may be where the result goes.
  for (int distance = 1; distance < group.size(); ++distance) {
    const int from = group.plus(distance);
    const std::size_t first = slices.first_bytes(from);
    co_await node.member(from, 2);
    if (!node.copy_result_in_place(from, arguments.out + first, first, slices.length_bytes(from)))
      co_await node.failure_of(from);
  }
  node.advance(3);
  co_await node.all(3);  // others still read ours
}

Task reduce_scatter_single_copy(Group group, const Arguments& arguments) {
  NodeOperation node{group};
  const Blocks& blocks = arguments.in_blocks;
  const std::size_t own = blocks.first_bytes(group.rank());
  const Parts parts{group, arguments.bytes(), arguments.element_bytes};
  co_await node.own_slot();
  node.publish_in_place(arguments.in, blocks.bytes());
  co_await node.all(1);
  const auto unread = reduce_in_place(group, node, arguments, parts, arguments.out, own, arguments.bytes());
  if (unread) co_await node.failure_of(*unread);
  co_await node.none_withdrawn();  // of Buffers, which were reduced where they lie
  node.advance(2);
  co_await node.all(2);  // others still read ours
}

namespace {

// Calls of the system for one slice of everybody.
double copies(const Shape& shape) {
  const auto part_bytes = static_cast<double>(part_bytes_of(shape.size, shape.element_bytes));
  return (shape.ranks() - 1) * std::ceil(shape.block_bytes() / part_bytes);
}

}  // namespace

Cost allreduce_single_copy_cost(const Shape& shape, const Model& model) {
  const double bytes = shape.vector_bytes();
  const double others = bytes - shape.block_bytes();
  return CoreWork{shape, model}
      .steps(3)
      .system_copies(copies(shape) + shape.ranks() - 1, 2 * others)
      .reduce(others)
      .stream(2 * bytes + others)  // the others' results have left the caches by then
      .cost();
}

Cost reduce_scatter_single_copy_cost(const Shape& shape, const Model& model) {
  const double block = shape.block_bytes();
  const double others = shape.vector_bytes() - block;
  return CoreWork{shape, model}
      .steps(2)
      .system_copies(copies(shape), others)
      .reduce(others)
      .stream(shape.vector_bytes() + block)
      .cost();
}

}  // namespace qpmesh::collectives
