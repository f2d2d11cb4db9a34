// Double-buffered: every rank copies a piece of each of its blocks into its staging at a time, and
// takes those for it from the others'. See node/double_buffered.hpp.
#include "collectives/node/double_buffered.hpp"
#include "collectives/algorithm.hpp"
#include "collectives/node/work.hpp"

namespace qpmesh::collectives {
namespace {

Task run(Group group, const Arguments& arguments) {
  NodeOperation node{group, Staging::needed};
  const Blocks& blocks = arguments.in_blocks;
  const int rank = group.rank();
  const std::size_t block_bytes = blocks.length_bytes(0);
  const Pieces pieces{blocks, group.size()};
  group.copy(arguments.out + blocks.first_bytes(rank), arguments.in + blocks.first_bytes(rank),
             block_bytes);
  co_await double_buffered_all_pairs(
      group, node, {arguments.in, blocks.bytes()}, pieces.count(),
      [&](std::size_t piece) {
        for (int distance = 1; distance < group.size(); ++distance) {
          const int to = group.plus(distance);
          group.copy(node.staging(piece) + pieces.place(to),
                     arguments.in + blocks.first_bytes(to) + pieces.begin(piece),
                     pieces.length(piece, block_bytes));
        }
      },
      [&](int from, std::size_t piece) {
        group.copy(arguments.out + blocks.first_bytes(from) + pieces.begin(piece),
                   node.staging(from, piece) + pieces.place(rank),
                   pieces.length(piece, block_bytes));
      },
      [&](int from) {
        group.copy(arguments.out + blocks.first_bytes(from),
                   node.data_of(from, blocks.first_bytes(rank), block_bytes), block_bytes);
      });
}

Cost cost(const CallShape& shape, const CostModel& model) {
  const double block = shape.block_bytes();
  const double others = shape.vector_bytes() - block;
  return CoreWork{shape, model}
      .steps(chunk_count(shape.vector_bytes()) + 1)
      .keep(block)
      .give_parts(others)
      .take_parts(others)
      .stream(2 * shape.vector_bytes())
      .cost();
}

}  // namespace

extern constexpr Algorithm alltoall_double_buffered{Collective::alltoall, "double_buffered",
                                                    fits_staging, cost, run};

}  // namespace qpmesh::collectives
