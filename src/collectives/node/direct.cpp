#include "collectives/node/direct.hpp"

namespace qpmesh::collectives {
namespace {

// Everybody's vectors lie in Buffers. target: where this rank's slice goes, at its place in the
// vector.
void reduce_slice_of_buffers(const Group& group, const NodeOperation& node,
                             const Arguments& arguments, std::byte* target) {
  const Blocks slices = even_blocks(arguments.element_count, group.size(), arguments.element_bytes);
  const std::size_t first = slices.first_bytes(group.rank());
  const std::size_t bytes = slices.length_bytes(group.rank());
  Operands operands;
  const auto sources = operands_in_rank_order(operands, group, arguments.in + first, [&](int rank) {
    return node.data_of(rank, first, bytes);
  });
  group.reduce(arguments.reducer, target, sources, bytes);
}

// Into two places, in parts: the second is written while the first is still in the nearest cache.
void reduce_into_both(const Group& group, const Reducer& reducer, std::byte* target,
                      std::byte* copy, Operands& operands, std::size_t bytes) {
  const std::span<const std::byte*> sources{operands.data(),
                                            static_cast<std::size_t>(group.size())};
  constexpr std::size_t part_bytes_max = 4096;
  const std::size_t part_bytes =
      std::max<std::size_t>(part_bytes_max / reducer.element_bytes, 1) * reducer.element_bytes;
  for (std::size_t begin = 0; begin < bytes; begin += part_bytes) {
    const std::size_t count_bytes = std::min(part_bytes, bytes - begin);
    group.reduce(reducer, target + begin, sources, count_bytes);
    group.copy(copy + begin, target + begin, count_bytes);
    for (const std::byte*& source : sources) source += count_bytes;
  }
}

// This rank's slice of a chunk, of which the others' are staged: to where it is read by who wants
// the result.
void reduce_slice_of_chunk(const Group& group, const NodeOperation& node,
                           const Arguments& arguments, const Blocks& slices, std::size_t begin,
                           std::size_t chunk, bool everybody_wants) {
  const std::size_t first = slices.first_bytes(group.rank());
  const std::size_t bytes = slices.length_bytes(group.rank());
  Operands operands;
  const auto sources =
      operands_in_rank_order(operands, group, arguments.in + begin + first,
                             [&](int rank) { return node.staging(rank, chunk) + first; });
  std::byte* const shared = node.staging(chunk) + first;
  if (everybody_wants) {
    reduce_into_both(group, arguments.reducer, arguments.out + begin + first, shared, operands,
                     bytes);
  } else {
    const bool wants = group.rank() == arguments.root;
    group.reduce(arguments.reducer, wants ? arguments.out + begin + first : shared, sources, bytes);
  }
}

}  // namespace

Task reduce_in_slices(Group group, const Arguments& arguments, bool everybody_wants) {
  NodeOperation node{group, Staging::needed};
  const bool wants = everybody_wants || group.rank() == arguments.root;
  const std::size_t bytes = arguments.bytes();
  const int size = group.size();
  const Chunks chunks{bytes, arguments.element_bytes};
  const auto slices_of = [&](std::size_t chunk) {
    return even_blocks(chunks.length(chunk) / arguments.element_bytes, size,
                       arguments.element_bytes);
  };
  const auto stage = [&](std::size_t chunk) {
    const Blocks slices = slices_of(chunk);
    const std::byte* const in = arguments.in + chunks.begin(chunk);
    const std::size_t own = slices.first_bytes(group.rank());
    const std::size_t behind = own + slices.length_bytes(group.rank());
    group.copy(node.staging(chunk), in, own);
    group.copy(node.staging(chunk) + behind, in + behind, chunks.length(chunk) - behind);
  };
  // Only an allreduce has a result at every rank.
  const bool own_in_arena =
      everybody_wants && node.in_arena(arguments.in, bytes) && node.in_arena(arguments.out, bytes);
  co_await node.own_slot();
  co_await node.own_staging();
  if (own_in_arena) {
    node.publish_in_place(arguments.in, bytes, arguments.out);
  } else {
    stage(0);
    node.publish_staged();
  }
  co_await node.all(1);
  if (node.all_in_arena()) {
    const Blocks slices = even_blocks(arguments.element_count, size, arguments.element_bytes);
    reduce_slice_of_buffers(group, node, arguments,
                            arguments.out + slices.first_bytes(group.rank()));
    node.advance(2);
    for (int distance = 1; distance < size; ++distance) {
      const int from = group.plus(distance);
      co_await node.member(from, 2);
      const std::size_t first = slices.first_bytes(from);
      group.copy(arguments.out + first, node.result_of(from, first, slices.length_bytes(from)),
                 slices.length_bytes(from));
    }
    co_await node.none_withdrawn();
    node.advance(3);
    co_await node.all(3);  // others still read our Buffers
    co_return;
  }
  std::uint32_t steps_before = 0;
  if (!node.none_in_arena()) {  // some Buffers, some private: all through staging
    if (own_in_arena) stage(0);
    node.advance(2);
    steps_before = 1;
  }
  for (std::size_t chunk = 0; chunk < chunks.count(); ++chunk) {
    const std::uint32_t staged = steps_before + 2 * static_cast<std::uint32_t>(chunk) + 1;
    if (chunk > 0) {
      stage(chunk);
      node.advance(staged);
    }
    co_await node.all(staged);
    const Blocks slices = slices_of(chunk);
    reduce_slice_of_chunk(group, node, arguments, slices, chunks.begin(chunk), chunk,
                          everybody_wants);
    node.advance(staged + 1);
    if (!wants) continue;
    for (int distance = 1; distance < size; ++distance) {
      const int from = group.plus(distance);
      co_await node.member(from, staged + 1);
      const std::size_t first = slices.first_bytes(from);
      group.copy(arguments.out + chunks.begin(chunk) + first, node.staging(from, chunk) + first,
                 slices.length_bytes(from));
    }
  }
}

CoreWork slices_reduced(const CallShape& shape, const CostModel& model) {
  const double bytes = shape.vector_bytes();
  const double others = bytes - shape.block_bytes();
  return CoreWork{shape, model}
      .steps(2 * chunk_count(bytes) + 1)
      .give(bytes)
      .take_parts(others)
      .reduce(others);
}

}  // namespace qpmesh::collectives
