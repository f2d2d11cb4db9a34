// Direct: every rank reduces its block out of the vectors of all, in pieces.
// See node/direct.hpp.
#include "collectives/node/direct.hpp"
#include "collectives/algorithm.hpp"
#include "collectives/node/work.hpp"

namespace qpmesh::collectives {
namespace {

Task run(Group group, const Arguments& arguments) {
  NodeOperation node{group, Staging::needed};
  const Blocks& blocks = arguments.in_blocks;
  const int size = group.size();
  const Pieces pieces{blocks, size, arguments.element_bytes};
  const auto stage = [&](std::size_t piece) {
    for (int block = 0; block < size; ++block) {
      if (block == group.rank()) continue;
      group.copy(node.staging(piece) + pieces.place(block),
                 arguments.in + blocks.first_bytes(block) + pieces.begin(piece),
                 pieces.length(piece, blocks.length_bytes(block)));
    }
  };
  const auto reduce_piece = [&](std::size_t piece) {
    const std::size_t place = pieces.place(group.rank());
    const std::byte* const own =
        arguments.in + blocks.first_bytes(group.rank()) + pieces.begin(piece);
    Operands operands;
    const auto sources = operands_in_rank_order(
        operands, group, own, [&](int rank) { return node.staging(rank, piece) + place; });
    group.reduce(arguments.reducer, arguments.out + pieces.begin(piece), sources,
                 pieces.length(piece, arguments.bytes()));
  };
  const bool own_in_arena = node.in_arena(arguments.in, blocks.bytes());
  co_await node.own_slot();
  co_await node.own_staging();
  if (own_in_arena) {
    node.publish_in_place(arguments.in, blocks.bytes());
  } else {
    stage(0);
    node.publish_staged();
  }
  co_await node.all(1);
  if (node.all_in_arena()) {
    Operands operands;
    const std::size_t first = blocks.first_bytes(group.rank());
    const auto sources = operands_in_rank_order(
        operands, group, arguments.in + first,
        [&](int rank) { return node.data_of(rank, first, arguments.bytes()); });
    group.reduce(arguments.reducer, arguments.out, sources, arguments.bytes());
    co_await node.none_withdrawn();
    node.advance(2);
    co_await node.all(2);  // others still read our Buffer
    co_return;
  }
  std::uint32_t steps_before = 0;
  if (!node.none_in_arena()) {
    if (own_in_arena) stage(0);
    node.advance(2);
    steps_before = 1;
  }
  for (std::size_t piece = 0; piece < pieces.count(); ++piece) {
    const std::uint32_t staged = steps_before + static_cast<std::uint32_t>(piece) + 1;
    if (piece > 0) {
      stage(piece);
      node.advance(staged);
    }
    co_await node.all(staged);
    reduce_piece(piece);
  }
}

Cost cost(const CallShape& shape, const CostModel& model) {
  const double block = shape.block_bytes();
  const double others = shape.vector_bytes() - block;
  return CoreWork{shape, model}
      .steps(chunk_count(shape.vector_bytes()) + 1)
      .give_parts(others)
      .take_parts(others)
      .reduce(others)
      .stream(shape.vector_bytes() + block)
      .cost();
}

}  // namespace

extern constexpr Algorithm reduce_scatter_direct{Collective::reduce_scatter, "direct", fits_staging,
                                                 cost, run};

}  // namespace qpmesh::collectives
